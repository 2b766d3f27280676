"""The Model Context Protocol: scans the messages between a client and a server, over stdio and over HTTP."""
