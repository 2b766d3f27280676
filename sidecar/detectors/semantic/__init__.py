"""The semantic layer: a cascade of two models over windows of tokens."""
