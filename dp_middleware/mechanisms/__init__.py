"""Published mechanisms, one per file, and the table of their names."""

from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.cape import Cape, CapeStrict
from dp_middleware.mechanisms.codes import PublicCode
from dp_middleware.mechanisms.contextual_response import ContextualResponse
from dp_middleware.mechanisms.custext import CusText, CusTextAggressive, CusTextPlus, CusTextStrict
from dp_middleware.mechanisms.document_response import DocumentResponse
from dp_middleware.mechanisms.dyntext import DynText, DynTextStrict
from dp_middleware.mechanisms.metric_noise import MetricNoise
from dp_middleware.mechanisms.nearest_response import NearestResponse
from dp_middleware.mechanisms.rantext import RanText, RanTextStrict
from dp_middleware.mechanisms.santext import SanText, SanTextPlus
from dp_middleware.mechanisms.stencil import DChiStencil, Stencil
from dp_middleware.mechanisms.text_mechanisms import ContextualMechanism, NoiseMechanism
from dp_middleware.mechanisms.token_exponential import TokenExponential
from dp_middleware.mechanisms.truncated_exponential import TruncatedExponential
from dp_middleware.mechanisms.vector_response import VectorResponse
from dp_middleware.mechanisms.weighted_response import WeightedResponse
from dp_middleware.mechanisms.within_classes import ByClass, WithinClasses

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        NearestResponse,
        TokenExponential,
        SanText,
        SanTextPlus,
        TruncatedExponential,
        CusText,
        CusTextPlus,
        CusTextAggressive,
        CusTextStrict,
        RanText,
        RanTextStrict,
        DynText,
        DynTextStrict,
        Cape,
        CapeStrict,
        ContextualResponse,
        MetricNoise,
        Stencil,
        DChiStencil,
        DocumentResponse,
        WeightedResponse,
    )
}
"""Every mechanism of tokens by the name that the command line takes."""

__all__ = [
    "MECHANISMS",
    "ByClass",
    "ChannelMechanism",
    "ContextualMechanism",
    "Mechanism",
    "NearestResponse",
    "NoiseMechanism",
    "PublicCode",
    "TokenExponential",
    "VectorResponse",
    "WeightedResponse",
    "WithinClasses",
]
