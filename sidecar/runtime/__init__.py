"""The composition root: builds a process and starts, reloads and stops it."""
