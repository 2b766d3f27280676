"""The three detection layers; each scores and none decides."""
