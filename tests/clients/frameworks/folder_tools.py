"""The tools of the agents in this folder: list the working folder, read one of its files."""

import pathlib  # not `from pathlib`: every name in this module is offered as a tool


def list_files() -> str:
    """List the names of the files in the working folder, one per line."""
    return "\n".join(sorted(path.name for path in pathlib.Path().iterdir()))


def read_file(path: str) -> str:
    """Read a text file of the working folder.

    Args:
        path: The name of the file.

    """
    return pathlib.Path(path).read_text("utf-8")
