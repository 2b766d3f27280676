"""Wordings: the same order in other English words, and other orders of its parts.

`SYNONYMS` also serves the proposed rules: a pattern that holds a word of a group holds all of that group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

SYNONYMS: Sequence[Sequence[str]] = (
    ("ignore", "pay no attention to", "set aside", "skip"),
    ("disregard", "pay no heed to", "leave out of account", "drop"),
    ("forget", "put out of your mind", "wipe from memory", "discard"),
    ("override", "take precedence over", "replace", "outrank"),
    ("bypass", "get around", "step past", "sidestep"),
    ("previous", "earlier", "preceding", "former"),
    ("prior", "foregoing", "past", "older"),
    ("above", "further up", "preceding this", "before this"),
    ("instructions", "directions", "guidance", "orders"),
    ("instruction", "direction", "guideline", "order"),
    ("rules", "constraints", "house rules", "policies"),
    ("guidelines", "principles", "standing orders", "norms"),
    ("restrictions", "limits", "fences", "boundaries"),
    ("system prompt", "setup text", "opening briefing", "initial configuration"),
    ("prompt", "briefing", "preamble", "starting text"),
    ("reveal", "disclose", "lay open", "let me see"),
    ("show", "display", "put on screen", "present"),
    ("print", "write out", "type out", "put down"),
    ("repeat", "say again", "restate", "echo"),
    ("output", "produce", "return", "emit"),
    ("tell", "inform", "let know", "brief"),
    ("send", "pass on", "transmit", "mail"),
    ("pretend", "make believe", "act as though", "suppose"),
    ("password", "passphrase", "access word", "login phrase"),
    ("secret", "confidential", "private", "undisclosed"),
    ("hidden", "unseen", "concealed", "tucked away"),
    ("assistant", "helper", "aide", "companion"),
    ("unrestricted", "unbounded", "free of limits", "without fences"),
    ("all", "every one of the", "each of the", "any of the"),
    ("everything", "the whole of it", "each thing", "the lot"),
    ("from now on", "starting here", "henceforth", "after this point"),
)
"""Groups of a word and three other wordings of it."""
_SHORT = {
    "instructions": "instr",
    "previous": "prev",
    "system": "sys",
    "prompt": "prmpt",
    "please": "plz",
    "you": "u",
    "your": "ur",
    "are": "r",
    "for": "4",
    "to": "2",
    "and": "n",
    "everything": "evrythng",
    "message": "msg",
    "messages": "msgs",
    "because": "bc",
    "before": "b4",
    "about": "abt",
    "password": "pw",
    "information": "info",
    "with": "w/",
    "without": "w/o",
}
_FILLERS = ("well,", "so to speak,", "you know,", "as it were,", "if I may,")


def _replaced(text: str, words: Mapping[str, str]) -> str:
    """The text with these words replaced, the longest first; a capital at the start of a word is kept."""
    names = "|".join(sorted(map(re.escape, words), key=len, reverse=True))

    def wording(match: re.Match[str]) -> str:
        word = words[match[0].lower()]
        return word.capitalize() if match[0][0].isupper() else word

    return re.sub(rf"(?i)\b(?:{names})\b", wording, text)


def _synonyms(number: int) -> dict[str, str]:
    return {group[0]: group[number] for group in SYNONYMS}


def _with_parts(text: str, between: str, join: Callable[[str, str], str]) -> str:
    """The two parts of the first sentence that has them, joined anew; other texts unchanged."""
    return re.sub(
        rf"(?is)\b(\w[^.!?\n]*?){between}([^.!?\n]+)", lambda match: join(match[1], match[2].strip()), text, count=1
    )


def _small(text: str) -> str:
    """The first letter small, unless it belongs to a word in capitals."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _large(text: str) -> str:
    return text[:1].upper() + text[1:]


def plain_synonyms(text: str) -> str:
    """The telling words replaced by common ones."""
    return _replaced(text, _synonyms(1))


def rare_synonyms(text: str) -> str:
    """The telling words replaced by rarer ones."""
    return _replaced(text, _synonyms(2))


def loose_synonyms(text: str) -> str:
    """The telling words replaced by looser ones."""
    return _replaced(text, _synonyms(3))


def texting(text: str) -> str:
    """The abbreviations of short messages."""
    return _replaced(text, _SHORT).lower()


def fillers(text: str) -> str:
    """An empty phrase behind every third word."""
    words = text.split(" ")
    groups = [" ".join(words[at : at + 3]) for at in range(0, len(words), 3)]
    phrases = [f"{group} {_FILLERS[at % len(_FILLERS)]}" for at, group in enumerate(groups[:-1])]
    return " ".join([*phrases, groups[-1]])


def parts_swapped(text: str) -> str:
    """The second part of a sentence first: A and B becomes B, but not before you A."""
    joined = r",?\s(?:and then|and|then)\s"
    return _with_parts(text, joined, lambda a, b: f"{_large(b)}, but not before you {_small(a)}")


def parts_apart(text: str) -> str:
    """Two sentences of one, with an aside between them."""
    aside = "I know that is a bit unusual. Next,"
    return _with_parts(text, r",?\s(?:and then|and|then)\s", lambda a, b: f"{a}. {aside} {b}")


def asked_politely(text: str) -> str:
    """A polite question in place of the order."""
    return f"Would you be so kind as to {_small(text.rstrip().rstrip('.!'))}?"


def stated_as_wish(text: str) -> str:
    """A wish in place of the order."""
    return f"It would make my day if I could get you to {_small(text)}"


def stated_as_agreement(text: str) -> str:
    """The order as what was agreed before."""
    return f"As we agreed yesterday, your part is to {_small(text)}"
