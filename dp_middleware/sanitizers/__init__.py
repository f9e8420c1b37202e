"""From a text to its release: read, certify, charge, draw, write."""
