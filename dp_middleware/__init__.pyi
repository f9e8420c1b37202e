__version__: str

from .certification import (
    calibrate as calibrate,
    certify as certify,
)
from .contexts import (
    CausalContext as CausalContext,
    MaskedContext as MaskedContext,
)
from .conversation.session import Session as Session
from .embedding import (
    EmbeddingService as EmbeddingService,
    EmbeddingSpace as EmbeddingSpace,
    default_space as default_space,
    glove_space as glove_space,
)
from .errors import (
    BudgetExhausted as BudgetExhausted,
    CannotCalibrate as CannotCalibrate,
    ChatError as ChatError,
    DPMiddlewareError as DPMiddlewareError,
    EmbeddingError as EmbeddingError,
    EventRefused as EventRefused,
    ExtractorError as ExtractorError,
    IncompatibleGuarantees as IncompatibleGuarantees,
    InfiniteEpsilon as InfiniteEpsilon,
    LedgerError as LedgerError,
    MissingExtra as MissingExtra,
    ParameterError as ParameterError,
    RemoteError as RemoteError,
    UnknownTokenError as UnknownTokenError,
    UntrustedHost as UntrustedHost,
)
from .frameworks import (
    Answer as Answer,
    InferDPT as InferDPT,
    PrivRewrite as PrivRewrite,
    PrivRewriteNaive as PrivRewriteNaive,
)
from .lab import (
    attacks as attacks,
    metrics as metrics,
)
from .lab.auditing import audit as audit
from .lab.evaluation import evaluate as evaluate
from .mechanisms import MECHANISMS as MECHANISMS
from .mechanisms.bibliography import citations as citations
from .mechanisms.cape import Cape as Cape, CapeStrict as CapeStrict
from .mechanisms.codes import PublicCode as PublicCode, UnitCode as UnitCode
from .mechanisms.contextual_response import ContextualResponse as ContextualResponse
from .mechanisms.custext import (
    CusText as CusText,
    CusTextAggressive as CusTextAggressive,
    CusTextPlus as CusTextPlus,
    CusTextStrict as CusTextStrict,
)
from .mechanisms.document_response import DocumentResponse as DocumentResponse
from .mechanisms.dyntext import DynText as DynText, DynTextStrict as DynTextStrict
from .mechanisms.keyword_code import KeywordCode as KeywordCode
from .mechanisms.language_model_code import LanguageModelCode as LanguageModelCode
from .mechanisms.metric_noise import MetricNoise as MetricNoise
from .mechanisms.nearest_response import NearestResponse as NearestResponse
from .mechanisms.rantext import RanText as RanText, RanTextStrict as RanTextStrict
from .mechanisms.santext import SanText as SanText, SanTextPlus as SanTextPlus
from .mechanisms.stencil import DChiStencil as DChiStencil, Stencil as Stencil
from .mechanisms.token_exponential import TokenExponential as TokenExponential
from .mechanisms.truncated_exponential import TruncatedExponential as TruncatedExponential
from .mechanisms.vector_response import VectorResponse as VectorResponse
from .mechanisms.weighted_response import (
    MixtureCode as MixtureCode,
    WeightedResponse as WeightedResponse,
)
from .mechanisms.within_classes import ByClass as ByClass, WithinClasses as WithinClasses
from .models.chat import (
    ChatModel as ChatModel,
    chat_model as chat_model,
    ollama as ollama,
)
from .privacy import (
    Adjacency as Adjacency,
    ApproxDP as ApproxDP,
    Certificate as Certificate,
    MetricDP as MetricDP,
    NoGuarantee as NoGuarantee,
    PureDP as PureDP,
)
from .privacy.ledger.ledger import PrivacyLedger as PrivacyLedger
from .privacy.releases import Release as Release
from .pseudonyms.pseudonyms import Pseudonyms as Pseudonyms
from .sanitizers.calibrated import (
    class_preserving as class_preserving,
    document_sanitizer as document_sanitizer,
    sanitizer as sanitizer,
)
from .sanitizers.policies import KeepPolicy as KeepPolicy
from .sanitizers.sanitizer import Sanitizer as Sanitizer
from .sanitizers.spans import Span as Span
from .vocabulary.classes import token_classes as token_classes
from .vocabulary.vocabulary import Vocabulary as Vocabulary
