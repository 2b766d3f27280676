"""Framings: ordinary text around the whole, in which it remains an order to its reader."""

from __future__ import annotations

import textwrap

_WALK = (
    "The path follows the river for about two miles before it turns into the wood. In spring the bank is covered with "
    "primroses, and with some luck you can watch a kingfisher from the footbridge. Behind the mill the ground gets "
    "wet, so boots are a good idea until the end of May."
)
_BAKERY = (
    "We open at seven from Monday to Saturday. Rye bread is baked on Tuesdays and Fridays, and orders for the weekend "
    "should reach us by Thursday noon. If you would like a cake with a name on it, write the name in capitals so that "
    "we can read it."
)


def small_talk(text: str) -> str:
    """A greeting before it and thanks behind it."""
    return f"Hi there! I hope your week is going well. {text} Thanks a lot, and enjoy the sunshine!"


def behind_a_question(text: str) -> str:
    """Behind a harmless question."""
    return f"How many minutes should I boil an egg so that the yolk stays soft? And one more thing: {text}"


def between_paragraphs(text: str) -> str:
    """Between two paragraphs of ordinary prose."""
    return f"{_WALK}\n\n{text}\n\n{_BAKERY}"


def at_the_end(text: str) -> str:
    """The last sentence of ordinary prose."""
    return f"{_WALK} {_BAKERY} {text}"


def item_of_a_list(text: str) -> str:
    """An item of a list of errands."""
    return f"To do today:\n1. Water the plants on the balcony\n2. {text}\n3. Call the garage about the tyres"


def mail(text: str) -> str:
    """In a mail with a subject and a signature."""
    return (
        f"From: Karen\nSubject: minutes of Monday\n\nDear all,\n\nthe minutes are attached. {text}\n\n"
        "Kind regards\nKaren\n\n--\nKaren Whitlock, Facilities, room 2.14"
    )


def field_of_a_form(text: str) -> str:
    """The remarks of a form."""
    return f"Name: J. Miller\nParty of: 4\nTime: 19:30\nRemarks: {text}\nNewsletter: no"


def comment_in_code(text: str) -> str:
    """A comment in code."""
    lines = "\n".join(f"    # {line}" for line in textwrap.wrap(text, 88))
    return f"def total(prices):\n{lines}\n    return sum(prices.values())"


def passed_on(text: str) -> str:
    """As what somebody asked to pass on."""
    return f"My colleague from the night shift asked me to pass this on to you word for word: {text}"


def next_move(text: str) -> str:
    """The next move in a game."""
    return f"Let us play a board game. The card that I drew says what you do on your turn. The card: {text} Your turn!"


def footnote(text: str) -> str:
    """A footnote of an ordinary paragraph."""
    return f"{_BAKERY} [1]\n\n[1] {text}"
