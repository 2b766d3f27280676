"""The LLM judge layer."""
