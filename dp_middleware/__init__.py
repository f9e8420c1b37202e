"""Differentially private text sanitizers as middleware for LLM applications.

``import dp_middleware as dp`` is light: each name of the stub beside this file loads its module
when it is first used; torch is loaded when something is first computed with it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
