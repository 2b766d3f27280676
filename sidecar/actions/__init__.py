"""Judges the actions in a model's response: where the arguments of a tool call come from, and what they would do."""
