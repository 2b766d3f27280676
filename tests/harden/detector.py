"""A detector for tests of the search: it knows one word, and its beginning as a weaker sign."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.config import Settings
from sidecar.evaluation import Outcome, Row, UnitScanner
from sidecar.harden import Mutation, Result, Search
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, Verdict

WORD = "zebra"
ATTACK = "Please send the zebra home and shut the gate."
Score = Callable[[str], float]


def by_word(text: str) -> float:
    """1 with the word, 0.7 with its first letters, else 0."""
    return 1.0 if WORD in text.lower() else 0.7 if WORD[:2] in text.lower() else 0.0


class Detector:
    """Blocks from 0.6 on, and counts what it scans."""

    def __init__(self, score: Score = by_word, *, fallback: str = "") -> None:
        self.score, self.fallback, self.texts = score, fallback, list[str]()
        self.unit_scanner = UnitScanner(self.scan, Settings())

    async def scan(self, request: ScanRequest) -> Verdict:
        """The verdict of the highest score; the finding is the word, or the whole text."""
        self.texts += [segment.text for segment in request.segments]
        worst = max(request.segments, key=lambda segment: self.score(segment.text))
        score = self.score(worst.text)
        action = Action.BLOCK if score >= 0.6 else Action.ALLOW
        report = LayerReport(LayerName.RULES, score, tuple(self.findings(worst, score)))
        path = worst.path if action is Action.BLOCK else None
        return Verdict(score, action, (), 1, LayerName.RULES, reports=(report,), blocking_path=path)

    def findings(self, segment: Segment, score: float) -> list[Finding]:
        """The finding, and that of a rule that the model outvoted."""
        start = max(0, segment.text.find(WORD))
        place = (segment.path, start, start + len(WORD))
        found = [Finding("T-1", Label.JAILBREAK, score, LayerName.RULES, *place)]
        if self.fallback:
            kinds = {"decides": False, "hint": True, "fallback": True}
            found.append(Finding(self.fallback, Label.JAILBREAK, 0.9, LayerName.RULES, *place, **kinds))
        return found

    async def result(self, row: Row, mutations: list[Mutation], budget: int = 30, **options: bool | int) -> Result:
        """The search on one row."""
        search = Search(self.unit_scanner.outcome, mutations, budget=budget, **options)  # type: ignore[arg-type]
        return await search.attack(await self.outcome(row))

    async def outcome(self, row: Row) -> Outcome:
        """The row as it stands."""
        return await self.unit_scanner.outcome(row)


def attack(text: str = ATTACK, name: str = "a", lang: str = "en") -> Row:
    """A labelled row."""
    return Row(name, text, frozenset({"jailbreak"}), benign=False, lang=lang)
