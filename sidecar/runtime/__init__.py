"""The composition root: what a process is made of, how it starts, reloads and stops."""
