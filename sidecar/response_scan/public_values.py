"""Values that look like personal data and are nobody's: of documentation, of organisations, of standards.

RFC 2606 names, AWS' example keys, numbers reserved for fiction (555-01xx), toll-free numbers, which organisations alone
have, the MAC addresses of RFC 7042 and of manuals, and the White House. Only responses are compared with them: what a
user writes into a prompt is his. Numbers count in telephone numbers alone, since an account may begin with the same
digits, and toll-free ones only as they are written: grouped, or with the code of the country.
"""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"(?i)(?:@|\.)example(?:\.(?:com|net|org))?\b|\.(?:test|invalid|localhost)\b|\bgit@|(?-i:EXAMPLE)"
    r"|\b1600 Pennsylvania Ave"
)
_TOLL_FREE = "8(?:00|33|44|55|66|77|88)"
_NUMBERS = re.compile(
    rf"(?:\+?1 ?)?(?:{_TOLL_FREE} \d{{3}} ?\d{{4}}|[2-9]\d\d ?555 ?01\d\d|202 ?456 ?(?:1111|1414|6213))"
    rf"|\+?1{_TOLL_FREE}\d{{7}}"
    r"|(?:\+|00)(?:44|49|33|41|43|61) ?(?:0 )?80[08](?: ?\d){5,8}|0800 \d(?: ?\d){4,7}"
)
"""Of numbers with one blank between their groups."""
_ADDRESSES = re.compile(
    r"(?i)00005e0053[0-9a-f]{2}|001a2b3c4d5e|001122334455|aabbccddeeff|0123456789ab|deadbeef[0-9a-f]{4}"
)
_NUMBER = re.compile(r"\+?\(?\d.*\d", re.DOTALL)
"""The number in a finding, which may have the words around it that told what it is."""
_SEPARATORS = re.compile(r"[\s().:/-]+")
LONGEST = 40
"""Characters of a telephone number or MAC address with all that may stand between its digits."""


def is_public(value: str, kind: str) -> bool:
    """Whether a value is nobody's. `kind`: of the data, as a placeholder names it."""
    if _NAMES.search(value):
        return True
    if kind == "PHONE" and (number := _NUMBER.search(value)) and len(number.group()) <= LONGEST:
        return _NUMBERS.fullmatch(_SEPARATORS.sub(" ", number.group()).strip()) is not None
    return kind == "MAC" and len(value) <= LONGEST and bool(_ADDRESSES.fullmatch(_SEPARATORS.sub("", value)))
