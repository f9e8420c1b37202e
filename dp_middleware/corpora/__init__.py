"""Whole files and data sets: each row is released once, and paid once."""

from dp_middleware.errors import needs

with needs("corpora"):
    from dp_middleware.corpora.columns import Columns
    from dp_middleware.corpora.files import restore_file, sanitize_file
    from dp_middleware.corpora.jobs import Report
    from dp_middleware.corpora.ray import NumberedRows

__all__ = ["Columns", "NumberedRows", "Report", "restore_file", "sanitize_file"]
