"""One release for each event of a conversation."""
