__version__: str

from . import (
    attacks as attacks,
)
from . import (
    metrics as metrics,
)
from .certification import (
    DeltaCurve as DeltaCurve,
)
from .certification import (
    audit as audit,
)
from .certification import (
    bounded_range as bounded_range,
)
from .certification import (
    calibrate as calibrate,
)
from .certification import (
    certify as certify,
)
from .certification import (
    delta_curve as delta_curve,
)
from .certification import (
    zcdp as zcdp,
)
from .contexts import (
    CausalContext as CausalContext,
)
from .contexts import (
    MaskedContext as MaskedContext,
)
from .embedding import (
    EmbeddingService as EmbeddingService,
)
from .embedding import (
    EmbeddingSpace as EmbeddingSpace,
)
from .embedding import (
    default_space as default_space,
)
from .errors import (
    BudgetExhausted as BudgetExhausted,
)
from .errors import (
    CannotCalibrate as CannotCalibrate,
)
from .errors import (
    ChatError as ChatError,
)
from .errors import (
    DPMiddlewareError as DPMiddlewareError,
)
from .errors import (
    EmbeddingError as EmbeddingError,
)
from .errors import (
    EventRefused as EventRefused,
)
from .errors import (
    ExtractorError as ExtractorError,
)
from .errors import (
    IncompatibleGuarantees as IncompatibleGuarantees,
)
from .errors import (
    InfiniteEpsilon as InfiniteEpsilon,
)
from .errors import (
    LedgerError as LedgerError,
)
from .errors import (
    MissingExtra as MissingExtra,
)
from .errors import (
    ParameterError as ParameterError,
)
from .errors import (
    RemoteError as RemoteError,
)
from .errors import (
    UnknownTokenError as UnknownTokenError,
)
from .errors import (
    UntrustedHost as UntrustedHost,
)
from .evaluation import evaluate as evaluate
from .frameworks import (
    Answer as Answer,
)
from .frameworks import (
    ChatModel as ChatModel,
)
from .frameworks import (
    InferDPT as InferDPT,
)
from .frameworks import (
    PrivRewrite as PrivRewrite,
)
from .frameworks import (
    PrivRewriteNaive as PrivRewriteNaive,
)
from .frameworks import (
    Progress as Progress,
)
from .frameworks import (
    chat_model as chat_model,
)
from .frameworks import (
    ollama as ollama,
)
from .mechanisms import (
    MECHANISMS as MECHANISMS,
)
from .mechanisms import (
    Cape as Cape,
)
from .mechanisms import (
    CapeStrict as CapeStrict,
)
from .mechanisms import (
    CusText as CusText,
)
from .mechanisms import (
    CusTextAggressive as CusTextAggressive,
)
from .mechanisms import (
    CusTextPlus as CusTextPlus,
)
from .mechanisms import (
    CusTextStrict as CusTextStrict,
)
from .mechanisms import (
    DChiStencil as DChiStencil,
)
from .mechanisms import (
    DynText as DynText,
)
from .mechanisms import (
    DynTextStrict as DynTextStrict,
)
from .mechanisms import (
    MetricNoise as MetricNoise,
)
from .mechanisms import (
    NearestResponse as NearestResponse,
)
from .mechanisms import (
    RanText as RanText,
)
from .mechanisms import (
    RanTextStrict as RanTextStrict,
)
from .mechanisms import (
    SanText as SanText,
)
from .mechanisms import (
    SanTextPlus as SanTextPlus,
)
from .mechanisms import (
    Stencil as Stencil,
)
from .mechanisms import (
    TokenExponential as TokenExponential,
)
from .mechanisms import (
    TruncatedExponential as TruncatedExponential,
)
from .mechanisms import (
    WithinClasses as WithinClasses,
)
from .mechanisms import (
    citations as citations,
)
from .privacy import (
    Adjacency as Adjacency,
)
from .privacy import (
    ApproxDP as ApproxDP,
)
from .privacy import (
    Certificate as Certificate,
)
from .privacy import (
    MetricDP as MetricDP,
)
from .privacy import (
    NoGuarantee as NoGuarantee,
)
from .privacy import (
    PureDP as PureDP,
)
from .privacy.ledger.ledger import PrivacyLedger as PrivacyLedger
from .privacy.releases import Release as Release
from .sanitizers.policies import KeepPolicy as KeepPolicy
from .sanitizers.preserving import class_preserving as class_preserving
from .sanitizers.sanitizer import (
    Sanitizer as Sanitizer,
)
from .sanitizers.sanitizer import (
    sanitizer as sanitizer,
)
from .sanitizers.spans import Span as Span
from .sessions.session import Session as Session
from .vocabulary.classes import token_classes as token_classes
from .vocabulary.vocabulary import Vocabulary as Vocabulary
