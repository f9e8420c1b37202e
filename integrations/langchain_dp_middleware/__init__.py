"""LangChain adapters: raw text stays in front of the chain. Names load when they are first used."""

import lazy_loader

from dp_middleware.errors import needs

with needs("langchain"):
    import langchain_core  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
