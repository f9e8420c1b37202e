"""Calls that leave no trace, log or event, whatever runs in them."""
