"""The program of the process that reads one file: the file comes on standard input, its text goes to standard output.

It runs by its path, without environment variables, and imports nothing of the sidecar but the module that reads this
kind of file (`pdf`, `picture`). A hostile file can only end this process: memory and processor time are bounded, and
once the file is read no other one and no connection can be opened.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

Reader = Callable[[bytes, int, int], tuple[str, bool]]
"""Takes a file and its bounds, of its size (pages, pixels) and its text; returns the text and whether it is all."""


def load(path: str) -> Reader:
    """The function `read` of a module. Loads all that it needs, which cannot be loaded once the process is confined."""
    spec: Any = spec_from_file_location("file_module", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    read: Reader = module.read
    return read


def confine(memory: int, seconds: int) -> None:
    """Bound this process."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def main() -> None:
    """Arguments: path of the module, memory in bytes, seconds of processor time, and the two bounds of `Reader`."""
    memory, seconds, size, characters = map(int, sys.argv[2:])
    read = load(sys.argv[1])
    confine(memory, seconds)
    text, whole = read(sys.stdin.buffer.read(), size, characters)
    output = json.dumps({"text": text, "whole": whole}, ensure_ascii=False)
    sys.stdout.buffer.write(output.encode("utf-8", "replace"))  # a lone surrogate is no text


if __name__ == "__main__":
    main()
