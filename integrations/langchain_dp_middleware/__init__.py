"""LangChain adapters of ``dp_middleware``: raw text stays in front of the chain and its traces.

Each name of the stub beside this file loads its module when it is first used: agents need
``langchain``, the rest ``langchain-core``.
"""

import lazy_loader

from dp_middleware.errors import needs

with needs("langchain"):
    import langchain_core  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
