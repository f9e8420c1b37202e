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
    "WithinClasses": "mechanisms",
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
    "class_preserving": "preserving",
    "token_classes": "token_labels",
    "Release": "releases",
    "Sanitizer": "sanitizers",
    "Span": "_plan",
    "sanitizer": "sanitizers",
    "Session": "sessions",
    "Answer": "frameworks",
    "InferDPT": "frameworks",
    "PrivRewrite": "frameworks",
    "PrivRewriteNaive": "frameworks",
    "Progress": "frameworks",
    "ChatModel": "frameworks",
    "chat_model": "frameworks",
    "ollama": "frameworks",
    "evaluate": "evaluation",
    "BudgetExhausted": "errors",
    "CannotCalibrate": "errors",
    "ChatError": "errors",
    "DPMiddlewareError": "errors",
    "EmbeddingError": "errors",
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

_SUBPACKAGES = ("attacks", "metrics")  # dp.attacks.bayes and so on

__all__ = [*_HOME, *_SUBPACKAGES, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from dp_middleware import attacks as attacks
    from dp_middleware import metrics as metrics
    from dp_middleware.certification import DeltaCurve as DeltaCurve
    from dp_middleware.certification import audit as audit
    from dp_middleware.certification import bounded_range as bounded_range
    from dp_middleware.certification import calibrate as calibrate
    from dp_middleware.certification import certify as certify
    from dp_middleware.certification import delta_curve as delta_curve
    from dp_middleware.certification import zcdp as zcdp
    from dp_middleware.contexts import CausalContext as CausalContext
    from dp_middleware.contexts import MaskedContext as MaskedContext
    from dp_middleware.embedding import EmbeddingService as EmbeddingService
    from dp_middleware.embedding import EmbeddingSpace as EmbeddingSpace
    from dp_middleware.embedding import default_space as default_space
    from dp_middleware.errors import BudgetExhausted as BudgetExhausted
    from dp_middleware.errors import CannotCalibrate as CannotCalibrate
    from dp_middleware.errors import ChatError as ChatError
    from dp_middleware.errors import DPMiddlewareError as DPMiddlewareError
    from dp_middleware.errors import EmbeddingError as EmbeddingError
    from dp_middleware.errors import EventRefused as EventRefused
    from dp_middleware.errors import ExtractorError as ExtractorError
    from dp_middleware.errors import IncompatibleGuarantees as IncompatibleGuarantees
    from dp_middleware.errors import InfiniteEpsilon as InfiniteEpsilon
    from dp_middleware.errors import LedgerError as LedgerError
    from dp_middleware.errors import MissingExtra as MissingExtra
    from dp_middleware.errors import ParameterError as ParameterError
    from dp_middleware.errors import RemoteError as RemoteError
    from dp_middleware.errors import UnknownTokenError as UnknownTokenError
    from dp_middleware.errors import UntrustedHost as UntrustedHost
    from dp_middleware.evaluation import evaluate as evaluate
    from dp_middleware.frameworks import Answer as Answer
    from dp_middleware.frameworks import ChatModel as ChatModel
    from dp_middleware.frameworks import InferDPT as InferDPT
    from dp_middleware.frameworks import PrivRewrite as PrivRewrite
    from dp_middleware.frameworks import PrivRewriteNaive as PrivRewriteNaive
    from dp_middleware.frameworks import Progress as Progress
    from dp_middleware.frameworks import chat_model as chat_model
    from dp_middleware.frameworks import ollama as ollama
    from dp_middleware.mechanisms import MECHANISMS as MECHANISMS
    from dp_middleware.mechanisms import Cape as Cape
    from dp_middleware.mechanisms import CapeStrict as CapeStrict
    from dp_middleware.mechanisms import CusText as CusText
    from dp_middleware.mechanisms import CusTextAggressive as CusTextAggressive
    from dp_middleware.mechanisms import CusTextPlus as CusTextPlus
    from dp_middleware.mechanisms import CusTextStrict as CusTextStrict
    from dp_middleware.mechanisms import DChiStencil as DChiStencil
    from dp_middleware.mechanisms import DynText as DynText
    from dp_middleware.mechanisms import DynTextStrict as DynTextStrict
    from dp_middleware.mechanisms import MetricNoise as MetricNoise
    from dp_middleware.mechanisms import NearestResponse as NearestResponse
    from dp_middleware.mechanisms import RanText as RanText
    from dp_middleware.mechanisms import RanTextStrict as RanTextStrict
    from dp_middleware.mechanisms import SanText as SanText
    from dp_middleware.mechanisms import SanTextPlus as SanTextPlus
    from dp_middleware.mechanisms import Stencil as Stencil
    from dp_middleware.mechanisms import TokenExponential as TokenExponential
    from dp_middleware.mechanisms import TruncatedExponential as TruncatedExponential
    from dp_middleware.mechanisms import WithinClasses as WithinClasses
    from dp_middleware.mechanisms import citations as citations
    from dp_middleware.privacy import Adjacency as Adjacency
    from dp_middleware.privacy import ApproxDP as ApproxDP
    from dp_middleware.privacy import Certificate as Certificate
    from dp_middleware.privacy import MetricDP as MetricDP
    from dp_middleware.privacy import NoGuarantee as NoGuarantee
    from dp_middleware.privacy import PureDP as PureDP
    from dp_middleware.privacy.ledger.ledger import PrivacyLedger as PrivacyLedger
    from dp_middleware.privacy.releases import Release as Release
    from dp_middleware.sanitizers.draft import Span as Span
    from dp_middleware.sanitizers.policies import KeepPolicy as KeepPolicy
    from dp_middleware.sanitizers.preserving import class_preserving as class_preserving
    from dp_middleware.sanitizers.sanitizer import Sanitizer as Sanitizer
    from dp_middleware.sanitizers.sanitizer import sanitizer as sanitizer
    from dp_middleware.sessions.session import Session as Session
    from dp_middleware.vocabulary.classes import token_classes as token_classes
    from dp_middleware.vocabulary.vocabulary import Vocabulary as Vocabulary


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"dp_middleware.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'dp_middleware' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dp_middleware.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_SUBPACKAGES})
