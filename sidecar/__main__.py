"""`python -m sidecar` is the command `sidecar`."""

from sidecar.cli import main
from sidecar.manual import PROGRAM

main(prog_name=PROGRAM)
