"""The doors: HTTP in, the engine's verdict obeyed, HTTP out."""
