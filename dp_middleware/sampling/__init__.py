"""Rows as integers with a fixed sum, kept, and draws from them."""
