"""Makes rows out of rows with a fixed seed: what no hand can write often enough.

Insertions teach who is addressed: an order to the assistant inside a document is an attack wherever it
stands; a plain request inside a text that the model only reads is one as well (nobody said it); the same
request behind a document that the speaker pasted is not. Encodings and gibberish come with harmless
controls, so that strangeness alone is no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from sidecar.types import Label
from training import augment, dressed
from training.rows import Row

INJECTION, JAILBREAK, SMUGGLING = (
    str(label) for label in (Label.PROMPT_INJECTION, Label.JAILBREAK, Label.TOKEN_SMUGGLING)
)


@dataclass(frozen=True)
class Pools:
    """Rows by the part they can play."""

    documents: tuple[Row, ...]
    orders: tuple[Row, ...]
    requests: tuple[Row, ...]
    attacks: tuple[Row, ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Pools:
        """Documents to insert into, orders to insert, harmless short requests, short attacks."""
        return cls(
            documents=tuple(r for r in rows if not r.attack and (r.indirect or len(r.text) > 900)),
            orders=tuple(
                r
                for r in rows
                if INJECTION in r.labels
                and not r.indirect
                and r.fine
                and 30 < len(r.text) < 350
                and SMUGGLING not in r.labels
            ),
            requests=tuple(
                r
                for r in rows
                if not r.attack
                and not r.indirect
                and not r.own
                and 15 < len(r.text) < 260
                and r.source not in {"hn_encoded_train", "presidio_generated_large", "pii_syn_nano"}
            ),
            attacks=tuple(
                r for r in rows if r.attack and not r.indirect and SMUGGLING not in r.labels and len(r.text) < 600
            ),
        )


def order_in_document(pools: Pools, rng: Random) -> Row:
    """An attack inside a document, read or pasted."""
    document, order = rng.choice(pools.documents), rng.choice(pools.orders)
    text, place = augment.insert(_slice(document.text, rng), order.text, rng)
    return replace(order, text=text, place=place, indirect=rng.random() < 0.75, made="order_in_document")


def request_in_document(pools: Pools, rng: Random) -> Row:
    """A harmless request in a text that is only read: nobody asked, so nobody may be obeyed."""
    document, request = rng.choice(pools.documents), rng.choice(pools.requests)
    text, place = augment.insert(_slice(document.text, rng), request.text, rng)
    labels = frozenset({INJECTION})
    return replace(request, text=text, place=place, indirect=True, made="request_in_document", labels=labels)


def request_with_document(pools: Pools, rng: Random) -> Row:
    """The same from the speaker: a pasted document and a question about something."""
    document, request = rng.choice(pools.documents), rng.choice(pools.requests)
    text, _ = augment.insert(_slice(document.text, rng), request.text, rng)
    return replace(request, text=text, indirect=False, made="request_with_document")


def document_alone(pools: Pools, rng: Random) -> Row:
    """The document without anything, in either channel, at times with machine noise in it."""
    document = rng.choice(pools.documents)
    text = _slice(document.text, rng)
    for _ in range(rng.choice([0, 0, 1, 3, 8])):
        text, _ = augment.insert(text, augment.machine_noise(rng), rng)
    return replace(document, text=text, indirect=rng.random() < 0.6, made="document_alone")


def gibberish_attack(pools: Pools, rng: Random) -> Row:
    """A request with the suffix that a token search found for it."""
    base = rng.choice(rng.choice([pools.requests, pools.attacks, _AIMED]))
    return replace(
        base, text=augment.with_suffix(base.text, rng), labels=base.labels | {JAILBREAK}, made="gibberish_attack"
    )


def machine_noise(pools: Pools, rng: Random) -> Row:
    """A request about something that a machine wrote."""
    base = rng.choice(pools.requests)
    return replace(base, text=_with_noise(base.text, rng), made="machine_noise")


def attack_in_noise(pools: Pools, rng: Random) -> Row:
    """An attack beside the same: eight hexadecimal numbers before it hid three in four from a model without these."""
    base = rng.choice(pools.attacks)
    text = _with_noise(base.text, rng)
    at = text.index(base.text)
    return replace(base, text=text, place=(at, at + len(base.text)), made="attack_in_noise")


def smuggled_attack(pools: Pools, rng: Random) -> Row:
    """An attack disguised or encoded."""
    base = rng.choice(pools.attacks)
    return replace(
        base, text=augment.smuggled(base.text, rng), labels=base.labels | {SMUGGLING}, made="smuggled_attack"
    )


def puzzle(pools: Pools, rng: Random) -> Row:
    """A harmless text disguised or encoded."""
    base = rng.choice(pools.requests)
    return replace(base, text=augment.puzzled(base.text, rng), made="puzzle")


def dressed_attack(_: Pools, rng: Random) -> Row:
    """An aim that harms somebody, in the dress of a role, a story or a study."""
    return _said(dressed.wardrobe().harmful(rng.choice(dressed.aims()), rng), "dressed_attack", JAILBREAK)


def dressed_harmless(_: Pools, rng: Random) -> Row:
    """Its harmless twin in such a dress."""
    text = dressed.wardrobe().harmless(rng.choice(dressed.aims()), rng)
    return _said(text, "dressed_harmless")


def dressed_request(pools: Pools, rng: Random) -> Row:
    """What anybody asks for, in such a dress: it proves nothing."""
    base = rng.choice(pools.requests)
    return replace(base, text=dressed.wardrobe().around(base.text, rng), made="dressed_request")


SHARES: tuple[tuple[Callable[[Pools, Random], Row], float], ...] = (
    (order_in_document, 0.040),
    (request_in_document, 0.040),
    (request_with_document, 0.045),
    (document_alone, 0.080),
    (gibberish_attack, 0.030),
    (machine_noise, 0.020),
    (attack_in_noise, 0.020),
    (smuggled_attack, 0.015),
    (puzzle, 0.015),
    (dressed_attack, 0.070),
    (dressed_harmless, 0.070),
    (dressed_request, 0.030),
)
"""What is made, as shares of the rows drawn."""


def made(pools: Pools, drawn: int, rng: Random) -> list[Row]:
    """The rows that accompany so many drawn ones."""
    return [make(pools, rng) for make, share in SHARES for _ in range(round(drawn * share))]


def touched(row: Row, rng: Random) -> Row:
    """A drawn row, now and then with typing errors; an attack from our documents at times as if it were said."""
    if len(row.text) < 400 and row.place is None and rng.random() < 0.08:
        row = replace(row, text=augment.typos(row.text, rng))
    if row.indirect and (row.own or not row.attack) and rng.random() < (0.3 if row.attack else 0.15):
        row = replace(row, indirect=False)
    return row


def _said(text: str, made: str, *labels: str) -> Row:
    """A text of our own that no row is the base of."""
    return Row(made, text, frozenset(labels), False, "corpus_dressed", made, "en", made, own=True, made=made)


_AIMED = tuple(_said(aim.harmful, "aim") for aim in dressed.aims())


def _with_noise(text: str, rng: Random) -> str:
    noise = "\n".join(augment.machine_noise(rng) for _ in range(rng.randint(1, 6)))
    return f"{text}\n{noise}" if rng.random() < 0.7 else f"{noise}\n{text}"


def _slice(text: str, rng: Random) -> str:
    """A stretch of a long document, cut at a line or a space."""
    most = rng.randint(250, 2500)
    if len(text) <= most:
        return text
    start = rng.randrange(len(text) - most)
    start = text.find(" ", start) + 1
    return text[start : start + most].rsplit(" ", 1)[0]
