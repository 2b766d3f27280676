"""What a model answers, and what of it must not go down: texts in it, leaks, windows over streams, placeholders."""
