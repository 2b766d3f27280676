"""What a read discloses: the data that a URL carries out, and files whose content is a secret."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

SECRET_PATH = re.compile(
    r"(?i)(?:^|[/\\])(?:\.env(?:\.\w+)?|\.netrc|\.pgpass|\.npmrc|\.git-credentials|\.htpasswd|shadow|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.?(?:credentials|secrets?|passwords?|tokens?)(?:\.\w+)?|[\w.-]+\.(?:pem|key|kdbx|p12|pfx|keystore))$"
    r"|(?:^|[/\\])\.(?:ssh|aws|gnupg|kube|docker)[/\\]"
)
"""Paths of files that hold keys or passwords."""
_TEMPLATE = re.compile(r"(?i)(https?://[^\s<>\"'`?]+)\?([^\s\"'`]*)")
_BLANK = re.compile(r"=(?:[\[{<(]|%7b|\$|:\w|[^\x00-\x7f]|(?=&|$|[\s,.;]))|\.\.\.|…|(?i:=(?:your|my|the)[_-])")
"""A value that is to be filled in: a bracket, none at all, or words in an alphabet that a URL does not have."""
MIN_VALUE, MIN_QUERY, MIN_LAST_PART = 4, 8, 24


def is_template_of(text: str, url: str) -> bool:
    """Whether a text gives the beginning of a URL with a value of its query to be filled in."""
    return any(_BLANK.search(hit[2]) and url.startswith(f"{hit[1]}?") for hit in _TEMPLATE.finditer(text))


def query_values(url: str) -> list[str]:
    """The values in the query of a URL that are long enough to be data."""
    try:
        pairs = parse_qsl(urlsplit(url).query)
    except ValueError:
        return []
    return [value for _, value in pairs if len(value) >= MIN_VALUE]


def carries_data(url: str) -> bool:
    """Whether a URL has a query, or a long last part, that could hold data."""
    path, _, query = url.partition("?")
    return len(query) > MIN_QUERY or len(path.rpartition("/")[2]) > MIN_LAST_PART
