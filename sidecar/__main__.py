"""`python -m sidecar` is the command `sidecar`."""

from sidecar.cli import main

main()
