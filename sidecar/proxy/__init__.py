"""The inline proxy: read, scan, then forward or refuse."""
