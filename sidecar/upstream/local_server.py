"""The child process of `local://`: serves one GGUF model until its standard input is closed.

Run by path, so that none of this program is imported: `python local_server.py MODEL_FILE MODEL_NAME`.
Writes one line: the address it listens on.
"""

from __future__ import annotations

import os
import sys

CONTEXT = 8192
SLOTS = 4
MAX_TOKENS = 256
"""Of an answer whose request names no limit: so small a model seldom ends by itself, and 256 take a few seconds."""


def main() -> None:
    """Serve until the parent closes the pipe or dies."""
    import xllamacpp  # noqa: PLC0415 - an optional extra

    model, name = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = SLOTS
    params.n_predict = MAX_TOKENS
    params.ui = False
    server = xllamacpp.Server(params)
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # No orderly shutdown: a server in the middle of a response would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
