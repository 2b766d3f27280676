"""The scan API and the compatibility APIs."""
