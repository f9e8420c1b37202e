"""What mechanisms compute with: lists, noise, searches and integrals."""
