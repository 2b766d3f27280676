"""API keys: how they are made, stored and checked."""
