"""prompt-sidecar: scans every prompt before it is forwarded to a large language model."""

__version__ = "0.1.0"
