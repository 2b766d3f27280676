"""API keys: creation, storage and authentication."""
