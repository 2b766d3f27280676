"""Commands whose modules are imported when they are used: most need neither the database nor the detectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click

from sidecar.cli.examples import show_examples


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a group by name, each imported on first use, with its examples."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places`: `MODULE:ATTRIBUTE` by name, below `sidecar.cli`."""
        self._places = dict(places)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """The command; `KeyError` for a name that is none."""
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            command: click.Command = getattr(import_module(f"sidecar.cli.{module}"), attribute)
            show_examples(command, name)
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command that is loaded."""
        self._places[name], self._loaded[name] = "", command

    def __delitem__(self, name: str) -> None:
        """Remove a command."""
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a command; loads nothing."""
        return name in self._places
