"""Generates rows from rows with a fixed seed: combinations that are too many to write by hand.

Insertions teach the model who is addressed: an instruction to the assistant inside a document is an attack at any
position; a plain request inside a text that the model only reads is one as well (the user did not make it); the same
request after a document that the user pasted is not. The foreign line of one document is inserted into another, and so
is the benign line of its twin. Encodings and gibberish come with benign controls, so that unusual text alone is no
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from sidecar.types import Label
from training import augment, scenarios
from training.documents import Documents
from training.rows import DIRECT, INDIRECT, Row, difference

INJECTION, JAILBREAK, SMUGGLING = (
    str(label) for label in (Label.PROMPT_INJECTION, Label.JAILBREAK, Label.TOKEN_SMUGGLING)
)


@dataclass(frozen=True)
class Pools:
    """Rows by their possible role, and long documents."""

    documents: tuple[Row, ...]
    orders: tuple[Row, ...]
    requests: tuple[Row, ...]
    attacks: tuple[Row, ...]
    foreign: tuple[Row, ...]
    """Lines that gave the assistant an order in the document they stood in."""
    native: tuple[Row, ...]
    """What stood there in its harmless twin."""
    long: Documents

    @classmethod
    def of(cls, rows: Sequence[Row], long: Documents) -> Pools:
        """Documents to insert into, orders to insert, harmless short requests, short attacks, single lines."""
        foreign, native = foreign_lines(rows)
        return cls(
            long=long,
            foreign=foreign,
            native=native,
            documents=tuple(r for r in rows if not r.attack and (r.indirect or len(r.text) > 900)),
            orders=tuple(
                r
                for r in rows
                if INJECTION in r.labels
                and r.channel == DIRECT
                and r.fine
                and 30 < len(r.text) < 350
                and SMUGGLING not in r.labels
            ),
            requests=tuple(
                r
                for r in rows
                if not r.attack
                and r.channel == DIRECT
                and not r.from_corpus
                and 15 < len(r.text) < 260
                and r.source not in {"hn_encoded_train", "presidio_generated_large", "pii_syn_nano"}
            ),
            attacks=tuple(
                r for r in rows if r.attack and r.channel == DIRECT and SMUGGLING not in r.labels and len(r.text) < 600
            ),
        )


def foreign_lines(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The inserted lines of documents that have a benign twin, and the twins' lines in their places."""
    twins = {row.group: row for row in rows if not row.attack and row.indirect and row.from_corpus}
    foreign, native = [], []
    for row in rows:
        if row.place is None or not (row.attack and row.indirect) or (twin := twins.get(row.group)) is None:
            continue
        theirs = difference(twin.text, [row.text])
        if _is_line(line := _whole(row.text, *row.place)):
            foreign.append(replace(row, text=line, place=None))
        if theirs and _is_line(line := _whole(twin.text, *theirs)):
            native.append(replace(twin, text=line))
    return tuple(foreign), tuple(native)


def _whole(text: str, start: int, end: int) -> str:
    """The span extended to the start of its first sentence and the end of its last word."""
    first = max(text.rfind(mark, 0, start) for mark in ("\n", ". ", "。", "! ", "? ", "。")) + 1
    start = first if start - first < 80 else start
    last = next((at for at in range(end, min(len(text), end + 40)) if text[at].isspace()), end)
    return text[start:last].strip()


def _is_line(text: str) -> bool:
    return 40 < len(text) < 700 and " " in text


def planted_attack(pools: Pools, rng: Random) -> Row:
    """The inserted line of one document, or an instruction, in a part of a real one."""
    order = rng.choice(pools.foreign if rng.random() < 0.75 else pools.orders)
    text, place, document = _planted(pools, order.text, rng)
    return replace(order, text=text, place=place, channel=_read_in(document, rng), transformation="planted_attack")


def planted_line(pools: Pools, rng: Random) -> Row:
    """The benign line of one document in a part of another: being out of place makes no attack."""
    line = rng.choice(pools.native)
    text, _, document = _planted(pools, line.text, rng)
    return replace(line, text=text, place=None, channel=_read_in(document, rng), transformation="planted_line")


def _planted(pools: Pools, line: str, rng: Random) -> tuple[str, tuple[int, int], Row]:
    document = pools.long.excerpt(rng, rng.choice([600, 1200, 3200]))
    wrapped = augment.wrapped(line, document.family, rng)
    text, (start, _) = augment.insert(document.text, wrapped, rng)
    start += wrapped.index(line)
    return text, (start, start + len(line)), document


def _read_in(document: Row, rng: Random) -> int:
    """Attacks in the application's own texts teach only how tool definitions and retrieved passages carry them."""
    return document.channel if document.channel != DIRECT or rng.random() < 0.3 else INDIRECT


def attack_beside_document(pools: Pools, rng: Random) -> Row:
    """An attack by the user before or after a pasted document."""
    document, attack = pools.long.excerpt(rng, 2400), rng.choice(pools.attacks)
    parts = [document.text, attack.text] if rng.random() < 0.65 else [attack.text, document.text]
    text = rng.choice(["\n", "\n\n", " ", "\n---\n"]).join(parts)
    at = text.rindex(attack.text) if parts[1] == attack.text else 0
    return replace(attack, text=text, place=(at, at + len(attack.text)), transformation="attack_beside_document")


def order_in_document(pools: Pools, rng: Random) -> Row:
    """An attack inside a document, read or pasted."""
    document, order = rng.choice(pools.documents), rng.choice(pools.orders)
    text, place = augment.insert(_slice(document.text, rng), order.text, rng)
    return replace(order, text=text, place=place, channel=int(rng.random() < 0.75), transformation="order_in_document")


def request_in_document(pools: Pools, rng: Random) -> Row:
    """A benign request in a text that is only read: the user did not make it, so it must not be obeyed."""
    document, request = rng.choice(pools.documents), rng.choice(pools.requests)
    text, place = augment.insert(_slice(document.text, rng), request.text, rng)
    labels = frozenset({INJECTION})
    return replace(
        request, text=text, place=place, channel=INDIRECT, transformation="request_in_document", labels=labels
    )


def request_with_document(pools: Pools, rng: Random) -> Row:
    """The same from the user: a pasted document and a question about something."""
    document, request = rng.choice(pools.documents), rng.choice(pools.requests)
    text, _ = augment.insert(_slice(document.text, rng), request.text, rng)
    return replace(request, text=text, channel=DIRECT, transformation="request_with_document")


def document_alone(pools: Pools, rng: Random) -> Row:
    """The document alone, in either channel, sometimes with machine noise in it."""
    document = rng.choice(pools.documents)
    text = _slice(document.text, rng)
    for _ in range(rng.choice([0, 0, 1, 3, 8])):
        text, _ = augment.insert(text, augment.machine_noise(rng), rng)
    return replace(document, text=text, channel=int(rng.random() < 0.6), transformation="document_alone")


def gibberish_attack(pools: Pools, rng: Random) -> Row:
    """A request with an adversarial suffix as token search produces it."""
    base = rng.choice(rng.choice([pools.requests, pools.attacks, _GOALS]))
    return replace(
        base,
        text=augment.with_suffix(base.text, rng),
        labels=base.labels | {JAILBREAK},
        transformation="gibberish_attack",
    )


def machine_noise(pools: Pools, rng: Random) -> Row:
    """A request about machine-generated text."""
    base = rng.choice(pools.requests)
    return replace(base, text=_with_noise(base.text, rng), transformation="machine_noise")


def attack_in_noise(pools: Pools, rng: Random) -> Row:
    """An attack beside the same: eight hexadecimal numbers before it hid three in four from a model without these."""
    base = rng.choice(pools.attacks)
    text = _with_noise(base.text, rng)
    at = text.index(base.text)
    return replace(base, text=text, place=(at, at + len(base.text)), transformation="attack_in_noise")


def smuggled_attack(pools: Pools, rng: Random) -> Row:
    """An obfuscated or encoded attack."""
    base = rng.choice(pools.attacks)
    return replace(
        base, text=augment.smuggled(base.text, rng), labels=base.labels | {SMUGGLING}, transformation="smuggled_attack"
    )


def puzzle(pools: Pools, rng: Random) -> Row:
    """An obfuscated or encoded benign text."""
    base = rng.choice(pools.requests)
    return replace(base, text=augment.puzzled(base.text, rng), transformation="puzzle")


def scenario_attack(_: Pools, rng: Random) -> Row:
    """A harmful goal in a scenario: a role, a story or a study."""
    return _synthetic(scenarios.templates().harmful(rng.choice(scenarios.goals()), rng), "scenario_attack", JAILBREAK)


def scenario_harmless(_: Pools, rng: Random) -> Row:
    """Its benign twin in such a scenario."""
    text = scenarios.templates().harmless(rng.choice(scenarios.goals()), rng)
    return _synthetic(text, "scenario_harmless")


def scenario_request(pools: Pools, rng: Random) -> Row:
    """An ordinary request in such a scenario: the scenario alone is no evidence."""
    base = rng.choice(pools.requests)
    return replace(base, text=scenarios.templates().around(base.text, rng), transformation="scenario_request")


SHARES: tuple[tuple[Callable[[Pools, Random], Row], float], ...] = (
    (planted_attack, 0.090),
    (planted_line, 0.070),
    (attack_beside_document, 0.030),
    (order_in_document, 0.025),
    (request_in_document, 0.015),
    (request_with_document, 0.035),
    (document_alone, 0.040),
    (gibberish_attack, 0.020),
    (machine_noise, 0.015),
    (attack_in_noise, 0.015),
    (smuggled_attack, 0.020),
    (puzzle, 0.015),
    (scenario_attack, 0.035),
    (scenario_harmless, 0.035),
    (scenario_request, 0.020),
)
"""The kinds of generated rows, as shares of the rows drawn."""


def shares() -> dict[str, float]:
    """The names of the kinds, and how often each is drawn."""
    return {maker.__name__: share for maker, share in SHARES}


def make(name: str, pools: Pools, rng: Random) -> Row:
    """A row of a kind named by `shares`."""
    return _MAKERS[name](pools, rng)


_MAKERS = {maker.__name__: maker for maker, _ in SHARES}


def touched(row: Row, rng: Random) -> Row:
    """A drawn row, sometimes with typing errors; an attack from our documents sometimes as the user's own."""
    if len(row.text) < 400 and row.place is None and rng.random() < 0.08:
        row = replace(row, text=augment.typos(row.text, rng))
    if row.indirect and (row.from_corpus or not row.attack) and rng.random() < (0.3 if row.attack else 0.15):
        row = replace(row, channel=DIRECT)
    return row


def _synthetic(text: str, transformation: str, *labels: str) -> Row:
    """A generated text without a base row."""
    return Row(
        transformation,
        text,
        frozenset(labels),
        DIRECT,
        "corpus_scenarios",
        transformation,
        "en",
        transformation,
        from_corpus=True,
        transformation=transformation,
    )


_GOALS = tuple(_synthetic(goal.harmful, "goal") for goal in scenarios.goals())


def _with_noise(text: str, rng: Random) -> str:
    noise = "\n".join(augment.machine_noise(rng) for _ in range(rng.randint(1, 6)))
    return f"{text}\n{noise}" if rng.random() < 0.7 else f"{noise}\n{text}"


def _slice(text: str, rng: Random) -> str:
    """A part of a long document, cut at a line or a space."""
    most = rng.randint(250, 2500)
    if len(text) <= most:
        return text
    start = rng.randrange(len(text) - most)
    start = text.find(" ", start) + 1
    return text[start : start + most].rsplit(" ", 1)[0]
