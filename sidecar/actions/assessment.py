"""Scores one action by its evidence: was such an action asked for, and who chose whom or what it reaches.

Each piece of evidence has a name and a weight, and the score is their sum, so that a refusal can say why. An argument
that only third parties have said is no offence by itself: the invoice names the account, the mail its sender. What
counts is that nobody asked for such an action, that the value stands in prose instead of a field, that the prose around
it presses for the action or moves it elsewhere, and that another value fits what the user named better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from functools import cached_property
from typing import NamedTuple

from sidecar.actions.arguments import Argument, arguments_of, leaves
from sidecar.actions.atoms import Atom, AtomKind, url_host
from sidecar.actions.conversation import ToolCall
from sidecar.actions.disclosure import SECRET_PATH, is_template_of, query_values
from sidecar.actions.passages import Passage
from sidecar.actions.provenance import Provenances
from sidecar.actions.requests import UserRequest
from sidecar.actions.tool_classes import ToolClass, ToolKind, name_words
from sidecar.actions.vocabulary import mentions, plain, solicited_families

WEIGHTS = {
    "unasked": 0.45,
    "loosely_asked": 0.2,
    "no_link_asked": 0.25,
    "prose": 0.25,
    "requested_there": 0.3,
    "solicited": 0.2,
    "redirected": 0.25,
    "replaces": 0.25,
    "addressed": 0.15,
    "names_tool": 0.3,
    "better_candidate": 0.25,
    "object_named": 0.2,
    "filled_in": 0.5,
    "secret": 0.3,
    "composed": 0.3,
    "unheard": 0.35,
    "finding": 0.3,
    "same_domain": -0.3,
    "linked": -0.3,
}
"""Evidence by name. The words are those of a refusal's log line and of docs/actions.md."""
_TOKEN = re.compile(r"[^\W_]{3,}")
_NAME = re.compile(r"(?<=[^\s.!?:] )([^\W\d_a-z][^\W_]{2,}|[^\W_]*\d[^\W_]*)")
_INVENTED = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT})
"""Kinds that a model does not make up: one that nobody said was put together from parts."""
_SINGLE = frozenset({AtomKind.PATH, AtomKind.COMMAND})
"""Kinds of which others in the text are no alternatives."""
_SOCIAL = frozenset({"send", "share", "post", "pay", "change"})
"""Families of actions for which letters and invoices ask every day."""
_CORRESPONDENCE = frozenset({"send", "pay"})
"""Of these, families that a letter asks for without meaning the assistant."""
_COMMON = (
    "the and for with from that this all und der die das dem den des ein eine les des una los las que por para von"
)
_HARMLESS = frozenset({ToolClass.READS, ToolClass.WRITES})
"""Classes that do no harm without an argument that does, or an object that is delicate."""
_MOVED = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT, AtomKind.PHONE, AtomKind.URL, AtomKind.HOST, AtomKind.IDENTIFIER})
MIN_QUERY, MIN_LAST_PART = 8, 24
Evidence = dict[str, float]


class Assessment(NamedTuple):
    """The score of a call, the argument that has it, and the evidence for it."""

    score: float = 0.0
    argument: Argument | None = None
    evidence: Evidence = {}  # noqa: RUF012 - never changed


class _Prose(NamedTuple):
    """A sentence without case, and the words of it and its neighbours."""

    text: str
    words: frozenset[str]


class Assessor:
    """Assesses actions against one conversation. `suspicious`: results in which a layer has found something."""

    def __init__(self, provenances: Provenances, suspicious: frozenset[int] = frozenset()) -> None:
        self._provenances = provenances
        self._request = UserRequest(provenances.user_text)
        self._suspicious = suspicious
        self._links: dict[str, int] = {}
        self._families: dict[str, frozenset[str]] = {}

    def assess(self, call: ToolCall, kind: ToolKind, allowed: Set[str] = frozenset()) -> Assessment:
        """The strongest evidence among the call's arguments, those aside that the settings allow by name."""
        best = Assessment() if allowed else self._whole_call(call, kind)
        for argument in arguments_of(call.arguments, allowed):
            evidence = self._evidence(argument.atom, call, kind)
            score = round(sum(evidence.values()), 2)
            if score > best.score:
                best = Assessment(score, argument, evidence)
        return best

    def assess_link(self, url: str) -> Assessment:
        """The evidence against a link in the answer's text, which a client may fetch by itself."""
        atom = Atom(AtomKind.URL, url, url)
        evidence = self._fetch(atom)
        return Assessment(round(sum(evidence.values()), 2), Argument("link", atom), evidence)

    def _evidence(self, atom: Atom, call: ToolCall, kind: ToolKind) -> Evidence:
        if kind.tool_class is ToolClass.READS:
            return self._fetch(atom) if atom.kind is AtomKind.URL else self._secret(atom, call.name)
        host = _host(atom) if atom.kind is AtomKind.URL else None
        if self._provenances.is_trusted(atom) or (host and self._provenances.is_trusted(host)):
            return {}
        places = self._provenances.places(atom) or (self._provenances.places(host) if host else [])
        if not places:
            is_unheard = atom.kind in _INVENTED and bool(self._provenances.passages) and not self._is_spelt_out(atom)
            return self._asking(kind) | _weights("unheard") if is_unheard and not atom.text.isdigit() else {}
        link = _weights("no_link_asked") if host and not self._request.is_about_links else {}
        return self._asking(kind) | self._surroundings(atom, places, call.name, kind) | link

    def _is_spelt_out(self, atom: Atom) -> bool:
        """Whether an address is made of a name that the user said and a host that is in use."""
        if atom.kind is not AtomKind.EMAIL or _user_part(atom).isdisjoint(self._user_words):
            return False
        host = Atom(AtomKind.HOST, _domain(atom), _domain(atom))
        return self._provenances.is_trusted(host) or self._provenances.is_sender(_domain(atom))

    def _whole_call(self, call: ToolCall, kind: ToolKind) -> Assessment:
        """Evidence against an action that nobody asked for and that a third party names or asks for."""
        asking = self._asking(kind)
        if "unasked" not in asking or (kind.tool_class in _HARMLESS and not kind.object):
            return Assessment()
        found = []
        if _is_distinctive(call.name) and any(call.name.casefold() in prose.text for prose in self._prose):
            found.append("names_tool")
        if kind.families.isdisjoint(_CORRESPONDENCE) and self._is_requested(kind.families, _nouns(call)):
            found.append("requested_there")
        if kind.object and any(mentions(prose.text, f"named {kind.object}") for prose in self._prose):
            found.append("object_named")
        evidence = asking | _weights(*found)
        return Assessment(round(sum(evidence.values()), 2), None, evidence) if found else Assessment()

    def _is_requested(self, families: frozenset[str], nouns: list[str]) -> bool:
        """Whether prose asks for an action of these families and names its object as the tool does."""
        near = (prose.text for prose in self._prose if not prose.words.isdisjoint(nouns))
        return any(self._solicited(text) & families for text in near)

    def _solicited(self, text: str) -> frozenset[str]:
        if text not in self._families:
            self._families[text] = solicited_families(text)
        return self._families[text]

    @cached_property
    def _prose(self) -> list[_Prose]:
        """The sentences of third parties, folded once for all calls of a response."""
        places = [place for place in self._provenances.passages if not place.structured]
        return [_Prose(place.text.casefold(), frozenset(_TOKEN.findall(place.around.casefold()))) for place in places]

    def _fetch(self, url: Atom) -> Evidence:
        """Evidence against fetching a URL that carries data to a host that only third parties have named."""
        host = _host(url)
        if not _carries_data(url.text) or self._provenances.places(url) or self._provenances.is_trusted(host):
            return {}
        places = self._provenances.places(host)
        if not places:
            return {}
        filled = any(is_template_of(place.text, url.text) for place in places) and self._has_private_data(url)
        return self._surroundings(host, places) | _weights("composed", *(["filled_in"] if filled else []))

    def _has_private_data(self, url: Atom) -> bool:
        """Whether a URL holds a value that does not come from the user's turns."""
        said = plain(self._provenances.user_text)
        return any(plain(value) not in said for value in query_values(url.text))

    def _secret(self, atom: Atom, tool: str) -> Evidence:
        """Evidence against reading a file with secrets that only third parties have named."""
        if atom.kind is not AtomKind.PATH or not SECRET_PATH.search(atom.text) or self._provenances.is_trusted(atom):
            return {}
        places = [place for place in self._provenances.places(atom) if not place.structured]
        return self._surroundings(atom, places, tool) | _weights("secret") if places else {}

    def _asking(self, kind: ToolKind) -> Evidence:
        if self._request.covers(kind):
            return {}
        return _weights("loosely_asked" if self._request.implies(kind) else "unasked")

    def _surroundings(
        self, atom: Atom, places: list[Passage], tool: str = "", kind: ToolKind | None = None
    ) -> Evidence:
        """Evidence from where a value stands, and from the words around it. Without a `kind`: of a link."""
        families = kind.families if kind else frozenset()
        is_covered = kind is not None and self._request.covers(kind)
        prose = [place for place in places if not place.structured]
        in_field = not prose if atom.kind is AtomKind.COMMAND else len(prose) < len(places)
        found = ["linked"] if in_field and any(self._link(place) for place in places if place.structured) else []
        if any(_names(place, tool) for place in prose):
            found.append("names_tool")
        if any(mentions(place.around, "machines") for place in prose):
            found.append("addressed")
        if any(mentions(place.around, "redirects") for place in prose):
            found.append("redirected")
        if any(place.result in self._suspicious for place in places):
            found.append("finding")
        if atom.kind is AtomKind.EMAIL and any(_domain(atom) in self._provenances.senders(p.result) for p in prose):
            found.append("same_domain")
        if self._replaces(atom, prose):
            found.append("replaces")
        if kind and self._request.points and (is_covered or self._request.delegates):
            return _weights(*found)
        if not in_field:
            found.append("prose")
        is_social = families <= _SOCIAL
        if any(self._solicited(place.text if is_social else place.around) & families for place in prose):
            found.append("solicited" if is_covered and is_social else "requested_there")
        if self._has_better(atom, places):
            found.append("better_candidate")
        return _weights(*found)

    def _replaces(self, atom: Atom, prose: list[Passage]) -> bool:
        """Whether each sentence with a value moves something, and another one of the same text does not move its own."""
        if atom.kind not in _MOVED or not prose or not all(mentions(place.text, "redirects") for place in prose):
            return False
        results = {place.result for place in prose}
        others = (place for place in self._provenances.passages if place.result in results)
        return any(_has_other(place, atom) and not mentions(place.text, "redirects") for place in others)

    def _has_better(self, atom: Atom, places: Iterable[Passage]) -> bool:
        """Whether another value of the kind, in a field, fits the user's words better; any does if this is in prose."""
        own = max((self._link(place) if place.structured else self._named(place) for place in places), default=-1)
        if atom.kind in _SINGLE or (atom.kind is AtomKind.IDENTIFIER and any(place.structured for place in places)):
            return False
        others = self._provenances.others(atom)
        return any(self._link(place) > own and _shape(other) == _shape(atom) for other, place in others)

    def _link(self, place: Passage) -> int:
        """How many words of the user's stand beside a value."""
        if place.record not in self._links:
            self._links[place.record] = len(self._user_words & frozenset(_TOKEN.findall(place.record.casefold())))
        return self._links[place.record]

    def _named(self, place: Passage) -> int:
        """How many names of the user's stand in a sentence; -1 for none, which is less than any field."""
        return len(self._user_names & frozenset(_TOKEN.findall(place.text.casefold()))) or -1

    @cached_property
    def _user_names(self) -> frozenset[str]:
        """Words with a capital that do not begin a sentence, and words with digits."""
        text = self._provenances.user_text
        return frozenset(hit.group(1).casefold() for hit in _NAME.finditer(text)) & self._user_words

    @cached_property
    def _user_words(self) -> frozenset[str]:
        return frozenset(_TOKEN.findall(self._provenances.user_text.casefold())) - frozenset(_COMMON.split())


def _names(place: Passage, tool: str) -> bool:
    """Whether a text names a tool, if its name is not a plain word."""
    return _is_distinctive(tool) and tool.casefold() in place.text.casefold()


def _has_other(place: Passage, atom: Atom) -> bool:
    """Whether a passage holds another value of the kind."""
    return any(
        other.kind is atom.kind and other.key != atom.key and _shape(other) == _shape(atom) for other in place.atoms
    )


def _is_distinctive(tool: str) -> bool:
    return bool(re.search(r"[_-]|[a-z][A-Z]", tool))


def _nouns(call: ToolCall) -> list[str]:
    """What a call is about: the words of its name after the first, and values of one word."""
    values = [
        value.casefold() for _, value in leaves(call.arguments) if _TOKEN.fullmatch(value) and not value.isdigit()
    ]
    return [*name_words(call.name)[1:], *values]


def _user_part(address: Atom) -> frozenset[str]:
    return frozenset(_TOKEN.findall(address.key.partition("@")[0]))


def _domain(address: Atom) -> str:
    return address.key.rpartition("@")[2]


def _host(url: Atom) -> Atom:
    host = url_host(url.text)
    return Atom(AtomKind.HOST, host, host)


def _shape(atom: Atom) -> str:
    """Values of one kind are alternatives; identifiers only if they are built alike."""
    return re.sub(r"\d+", "9", atom.key) if atom.kind is AtomKind.IDENTIFIER else atom.kind


def _carries_data(url: str) -> bool:
    """Whether a URL has a query, or a long last part, that could hold data."""
    path, _, query = url.partition("?")
    return len(query) > MIN_QUERY or len(path.rpartition("/")[2]) > MIN_LAST_PART


def _weights(*names: str) -> Evidence:
    return {name: WEIGHTS[name] for name in names}
