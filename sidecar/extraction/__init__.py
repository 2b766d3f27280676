"""Request bodies in, segments out."""
