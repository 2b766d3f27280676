"""Scans files before a model reads them: instructions of agents, configurations, folders for retrieval."""
