"""Requests that try to exhaust a scanner, and what they cost: memory, processor time, time on the event loop."""
