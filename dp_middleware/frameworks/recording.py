"""Calls that leave no record in tracers, callbacks, spans or vendors' logs."""

from __future__ import annotations

from dp_middleware._recording import call_unrecorded as call_unrecorded
from dp_middleware._recording import is_unrecorded as is_unrecorded
from dp_middleware._recording import unrecorded as unrecorded
from dp_middleware._recording import watch as watch
from dp_middleware._recording import wrap_once as wrap_once
