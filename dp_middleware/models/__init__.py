"""Chat and embedding models, and which of them raw text may reach."""
