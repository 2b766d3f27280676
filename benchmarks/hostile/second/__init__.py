"""A second generator of hostile requests, by another author than the first, who had seen nothing of the scanner."""
