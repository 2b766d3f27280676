"""Speed of the doors beside a bare aiohttp proxy and other gateways, in one run: `python -m benchmarks.speed`."""
