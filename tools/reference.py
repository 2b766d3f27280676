"""Generates docs/configuration.md from config.yaml, and the table of roles in docs/access.md.

It also writes the pages of `tools.manual` and the files of `tools.monitoring`.

Usage: python -m tools.reference
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sidecar.config import Settings
from sidecar.dashboard import permissions
from tools import manual, monitoring

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "configuration.md"
ACCESS = ROOT / "docs" / "access.md"
ROLES, ROLES_END = "<!-- roles: written by python -m tools.reference -->", "<!-- end of roles -->"
HEAD = """# Configuration reference

Written by `python -m tools.reference` from the settings; do not edit.

`config.yaml` in the working folder, or the file named by `--config`, holds settings; missing ones have their default.
The environment overrides the file: `SIDECAR__SCAN__THRESHOLD=0.7` sets `scan.threshold`, and a secret can come from a
file: `SIDECAR__STORE__URL_FILE=/run/secrets/store`; where both are set, the file wins.
Unknown settings are errors, and all problems are reported at once:
`sidecar check` reports them without starting anything, and warns of settings without effect. `sidecar check --connect`
tries every connection, too.

Durations are written `250ms`, `30s`, `15m`, `24h`, `90d`; sizes `500kB`, `10MiB`; rates `600/minute`.
"""
TABLE = "| setting | default | |\n|---|---|---|\n"
_LINE = re.compile(r"^(?P<indent> *)(?P<name>[a-z_0-9]+):(?P<value>.*?)(?:\s+# (?P<said>.*))?$")


class Setting(NamedTuple):
    """A line of config.yaml."""

    name: str
    default: str
    comment: str
    section: bool


def settings() -> Iterator[Setting]:
    """All lines of config.yaml, in order, by their dotted names."""
    values = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    place: list[str] = []
    for line in (ROOT / "config.yaml").read_text("utf-8").splitlines():
        if not (match := _LINE.match(line)):
            continue
        place = [*place[: len(match["indent"]) // 2], match["name"]]
        comment, default = (match["said"] or "").strip(), match["value"].strip()
        yield Setting(".".join(place), default, comment, not default and isinstance(_at(values, place), dict))


def _at(values: Any, place: list[str]) -> Any:
    for name in place:
        values = values[name]
    return values


def page() -> str:
    """The reference as Markdown: a table for each section, one for top-level settings."""
    parts, alone = [HEAD], []
    for setting in settings():
        top = setting.name.partition(".")[0]
        if setting.section and setting.name == top:
            parts.append(
                f"\n## {top}\n\n{_sentence(setting.comment or _doc(top))}\n\n| setting | default | |\n|---|---|---|\n"
            )
        elif setting.name == top:
            alone.append(_row(setting))
        elif not setting.section:
            parts.append(_row(setting))
    parts.insert(1, "".join(["\n## Top-level settings\n\n", TABLE, *alone]))
    return "".join(parts)


def _doc(section: str) -> str:
    return str(Settings.model_fields[section].annotation.__doc__ or "").partition("\n")[0]  # type: ignore[union-attr]


def _sentence(comment: str) -> str:
    return comment[:1].upper() + comment[1:].removesuffix(".") + "."


def _row(setting: Setting) -> str:
    comment = setting.comment.replace("|", "\\|").replace("<", "&lt;")
    return f"| `{setting.name}` | `{setting.default}` | {comment} |\n"


def access() -> str:
    """The guide to users, with the table of roles."""
    before, start, rest = ACCESS.read_text("utf-8").partition(ROLES)
    return f"{before}{start}\n\n{permissions.table()}\n\n{ROLES_END}{rest.partition(ROLES_END)[2]}"


def main() -> None:
    """Write the pages."""
    for path, text in [(PAGE, page()), (ACCESS, access()), *manual.pages(), *monitoring.files().items()]:
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
