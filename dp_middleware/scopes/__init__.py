"""Detectors: which parts of a text are private, for ``scope=`` of a sanitizer or a session.

**Everything that a detector does not return is released as it is.** Each says what it declares
public; in doubt a part is private. The released text stands where the private text stood and is
written so that the frame around it keeps its form.
"""

from dp_middleware.scopes._json import json_values
from dp_middleware.scopes._matches import matches

__all__ = ["json_values", "matches"]
