"""`python -m sidecar` is the command `sidecar`."""

from sidecar.cli.examples import PROGRAM
from sidecar.cli.main import main

main(prog_name=PROGRAM)
