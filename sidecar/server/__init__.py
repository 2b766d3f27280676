"""Shared by all HTTP ports: listening, limits, headers, errors."""
