"""Differentially private text sanitizers as middleware for LLM applications.

``import dp_middleware as dp`` is light: every name below loads its module, and torch with it,
when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Vocabulary": "vocabulary",
    "EmbeddingSpace": "embedding",
    "EmbeddingService": "embedding",
    "default_space": "embedding",
    "MECHANISMS": "mechanisms",
    "Cape": "mechanisms",
    "CapeStrict": "mechanisms",
    "CusText": "mechanisms",
    "CusTextAggressive": "mechanisms",
    "CusTextPlus": "mechanisms",
    "CusTextStrict": "mechanisms",
    "DChiStencil": "mechanisms",
    "DynText": "mechanisms",
    "DynTextStrict": "mechanisms",
    "MetricNoise": "mechanisms",
    "NearestResponse": "mechanisms",
    "RanText": "mechanisms",
    "RanTextStrict": "mechanisms",
    "SanText": "mechanisms",
    "SanTextPlus": "mechanisms",
    "Stencil": "mechanisms",
    "TokenExponential": "mechanisms",
    "TruncatedExponential": "mechanisms",
    "citations": "mechanisms",
    "CausalContext": "contexts",
    "MaskedContext": "contexts",
    "Adjacency": "privacy",
    "ApproxDP": "privacy",
    "Certificate": "privacy",
    "MetricDP": "privacy",
    "NoGuarantee": "privacy",
    "PrivacyLedger": "privacy.ledger",
    "PureDP": "privacy",
    "audit": "certification",
    "calibrate": "certification",
    "certify": "certification",
    "DeltaCurve": "certification",
    "bounded_range": "certification",
    "delta_curve": "certification",
    "zcdp": "certification",
    "KeepPolicy": "policies",
    "Release": "sanitizers",
    "Sanitizer": "sanitizers",
    "sanitizer": "sanitizers",
    "Session": "sessions",
    "Answer": "frameworks",
    "InferDPT": "frameworks",
    "PrivRewrite": "frameworks",
    "PrivRewriteNaive": "frameworks",
    "Progress": "frameworks",
    "ChatModel": "frameworks",
    "chat_model": "frameworks",
    "BudgetExhausted": "errors",
    "CannotCalibrate": "errors",
    "ChatError": "errors",
    "DPMiddlewareError": "errors",
    "EventRefused": "errors",
    "ExtractorError": "errors",
    "IncompatibleGuarantees": "errors",
    "InfiniteEpsilon": "errors",
    "MissingExtra": "errors",
    "ParameterError": "errors",
    "RemoteError": "errors",
    "UnknownTokenError": "errors",
    "LedgerError": "errors",
    "UntrustedHost": "errors",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from dp_middleware.certification import (
        DeltaCurve,
        audit,
        bounded_range,
        calibrate,
        certify,
        delta_curve,
        zcdp,
    )
    from dp_middleware.contexts import CausalContext, MaskedContext
    from dp_middleware.embedding import EmbeddingService, EmbeddingSpace, default_space
    from dp_middleware.errors import (
        BudgetExhausted,
        CannotCalibrate,
        ChatError,
        DPMiddlewareError,
        EventRefused,
        ExtractorError,
        IncompatibleGuarantees,
        InfiniteEpsilon,
        LedgerError,
        MissingExtra,
        ParameterError,
        RemoteError,
        UnknownTokenError,
        UntrustedHost,
    )
    from dp_middleware.frameworks import (
        Answer,
        ChatModel,
        InferDPT,
        PrivRewrite,
        PrivRewriteNaive,
        Progress,
        chat_model,
    )
    from dp_middleware.mechanisms import (
        MECHANISMS,
        Cape,
        CapeStrict,
        CusText,
        CusTextAggressive,
        CusTextPlus,
        CusTextStrict,
        DChiStencil,
        DynText,
        DynTextStrict,
        MetricNoise,
        NearestResponse,
        RanText,
        RanTextStrict,
        SanText,
        SanTextPlus,
        Stencil,
        TokenExponential,
        TruncatedExponential,
        citations,
    )
    from dp_middleware.policies import KeepPolicy
    from dp_middleware.privacy import (
        Adjacency,
        ApproxDP,
        Certificate,
        MetricDP,
        NoGuarantee,
        PureDP,
    )
    from dp_middleware.privacy.ledger import PrivacyLedger
    from dp_middleware.sanitizers import Release, Sanitizer, sanitizer
    from dp_middleware.sessions import Session
    from dp_middleware.vocabulary import Vocabulary


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dp_middleware' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dp_middleware.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
