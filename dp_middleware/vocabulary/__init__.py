"""Tokens and their ids, texts and their tokens, public classes of tokens."""
