"""The laboratory: attacks, metrics, audits, curves, and one table of them for a setting."""
