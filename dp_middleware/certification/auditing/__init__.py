"""Lower bounds on epsilon from samples."""
