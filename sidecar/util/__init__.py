"""Helpers without a domain: JSON, logging, background tasks, timeouts, units."""
