"""Manifests as text: read as kubectl reads them, and written so that no reader takes a string for something else.

kubectl reads YAML by Go's `sigs.k8s.io/yaml` (`goyaml.v2/resolve.go` in it): `0o17`, `1e3`, `y` and `n` are no strings
there, while `12:30` and a date are. PyYAML's resolver follows YAML 1.1 and differs in these. A string that either of
them, or YAML 1.2, could take for a number, a boolean, null, a date or a merge key is written in quotes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import re2
import yaml

from sidecar.util.yaml import StrictLoader

_TAG = "tag:yaml.org,2002:"
_TRUE, _FALSE, _NULL = {"y", "yes", "on", "true"}, {"n", "no", "off", "false"}, {"", "~", "null"}
_SPECIAL = {".inf", "+.inf", "-.inf", ".nan", "inf", "infinity", "nan", "<<", "="}
_WORDS = _TRUE | _FALSE | _NULL | _SPECIAL
_NUMERIC = re2.compile(r"[-+.]*[0-9][0-9a-fA-FxXoOpPTZtz_.,:+\- \t]*|[-+.][_.,]*")
"""Whatever has a number's first character and only characters of numbers of any base, dates and times."""
_LINE_BREAKS = {"\x85", "\u2028", "\u2029"}
"""Line breaks of YAML 1.1 alone: only an escape brings them through."""
_RESOLVERS = {
    "bool": (r"y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE", "yYnNoOtTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
    "int": (r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""Go's rules in the order in which they are tried, each with the first characters that it is tried for."""


class _Loader(StrictLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own mechanism


def _go_bool(_: Any, node: yaml.ScalarNode) -> bool:
    return node.value.lower() in _TRUE


def _go_int(_: Any, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "").lower()
    digits = text.lstrip("+-")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    value = int(digits, 8 if is_octal else 0)
    return -value if text.startswith("-") else value


for _name, (_pattern, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re2.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_TAG + "bool", _go_bool)
_Loader.add_constructor(_TAG + "int", _go_int)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the library's
        """No anchors: people read manifests."""
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if _LINE_BREAKS & set(text):
        return dumper.represent_scalar(_TAG + "str", text, style='"')
    return dumper.represent_scalar(_TAG + "str", text, style="'" if is_ambiguous(text) else None)


_Dumper.add_representer(str, _string)


def is_ambiguous(text: str) -> bool:
    """Whether some reader of YAML could take this for another type than a string."""
    return text.lower() in _WORDS or _NUMERIC.fullmatch(text) is not None


def load_all(text: str) -> list[Any]:
    """Every document of a stream. Raises as `sidecar.util.yaml.load` does."""
    return list(yaml.load_all(text, Loader=_Loader))


def dump_all(documents: Iterable[object]) -> str:
    """The documents as one stream of YAML."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
