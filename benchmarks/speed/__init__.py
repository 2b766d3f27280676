"""Speed compared with a bare aiohttp proxy and other gateways, in one run: `python -m benchmarks.speed`."""
