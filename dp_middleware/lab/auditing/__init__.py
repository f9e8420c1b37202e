"""Lower bounds on epsilon from samples."""

from dp_middleware.lab.auditing.audit import audit

__all__ = ["audit"]
