"""Scans the model's responses: text extraction, leak detection, buffering of streams, placeholders."""
