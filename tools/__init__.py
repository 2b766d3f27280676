"""Small helpers of the Makefile."""
