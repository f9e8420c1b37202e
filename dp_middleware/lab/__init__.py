"""The laboratory: attacks, metrics, audits, and one table of them for a setting."""

import lazy_loader  # type: ignore[import-untyped]

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"attacks", "metrics"})
