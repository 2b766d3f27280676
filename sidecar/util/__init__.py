"""Domain-independent helpers: JSON, logging, background tasks, timeouts, units, the bulkhead."""
