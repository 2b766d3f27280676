"""Values that look like personal data and are nobody's: of documentation, of organisations, of standards.

RFC 2606 names, AWS' example keys, numbers reserved for fiction (555-01xx), toll-free numbers, which organisations alone
have, the MAC addresses of RFC 7042 and of manuals, and the White House. Only responses are compared with them: what a
user writes into a prompt is his.
"""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"(?i)(?:@|\.)example(?:\.(?:com|net|org))?\b|\.(?:test|invalid|localhost)\b|\bgit@|(?-i:EXAMPLE)"
    r"|\b1600 Pennsylvania Ave"
)
_NUMBERS = re.compile(
    r"(?:\+?1)?(?:8(?:00|33|44|55|66|77|88)\d{7}|[2-9]\d\d55501\d\d|202456(?:1111|1414|6213))"
    r"|(?:\+(?:44|49|33|41|43|61|81)|00(?:44|49|33|41|43|61|81)|0)80[08]\d{5,8}"
)
_ADDRESSES = re.compile(
    r"(?i)00005e0053[0-9a-f]{2}|001a2b3c4d5e|001122334455|aabbccddeeff|0123456789ab|deadbeef[0-9a-f]{4}"
)
_NUMBER = re.compile(r"\+?\(?\d.*\d", re.DOTALL)
"""The number in a finding, which may have the words around it that told what it is."""
_SEPARATORS = re.compile(r"[\s().:/-]")
LONGEST = 40
"""Characters of a telephone number or MAC address with all that may stand between its digits."""


def is_public(value: str) -> bool:
    """Whether a value is nobody's."""
    if _NAMES.search(value):
        return True
    number = _NUMBER.search(value)
    return bool((number and _is_of(_NUMBERS, number.group())) or _is_of(_ADDRESSES, value))


def _is_of(known: re.Pattern[str], value: str) -> bool:
    return len(value) <= LONGEST and known.fullmatch(_SEPARATORS.sub("", value)) is not None
