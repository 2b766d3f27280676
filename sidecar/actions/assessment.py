"""Scores one action by its evidence: was such an action asked for, and who chose whom or what it reaches.

Each piece of evidence has a name and a weight, and the score is their sum, so that a refusal can say why. An argument
that only third parties have said is no offence by itself: the invoice names the account, the mail its sender. What
counts most is how far one sentence of a third party describes the call, whether it speaks to a machine, and whether the
user pointed at a text; then the words around the argument, and other values that fit what the user named better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

from sidecar.actions.arguments import Argument, arguments_of, links_of
from sidecar.actions.atoms import Atom, AtomKind, url_host
from sidecar.actions.conversation import ToolCall
from sidecar.actions.descriptions import Descriptions
from sidecar.actions.disclosure import SECRET_PATH, carries_data, is_template_of, query_values
from sidecar.actions.evidence import Assessment, Evidence, assessment, graded, weights
from sidecar.actions.passages import Passage
from sidecar.actions.provenance import Provenances
from sidecar.actions.requests import UserRequest, UserWords
from sidecar.actions.third_parties import ThirdParties, is_distinctive
from sidecar.actions.tool_classes import ToolClass, ToolKind
from sidecar.actions.vocabulary import mentions

_SINGLE = frozenset({AtomKind.PATH, AtomKind.COMMAND})
"""Kinds of which others in the text are no alternatives."""
_SOCIAL = frozenset({"send", "share", "post", "pay", "change"})
"""Families of actions for which letters and invoices ask every day."""
_MILD = frozenset({ToolClass.READS, ToolClass.WRITES})
"""Classes that are no evidence as a whole, unless the object is delicate."""
_MOVED = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT, AtomKind.PHONE, AtomKind.URL, AtomKind.HOST, AtomKind.IDENTIFIER})


class Assessor:
    """Assesses actions against one conversation. `suspicious`: results in which a layer has found something."""

    def __init__(self, provenances: Provenances, suspicious: frozenset[int] = frozenset()) -> None:
        self._provenances = provenances
        self._request = UserRequest(provenances.user_text)
        self._suspicious = suspicious
        self._user = UserWords(provenances.user_text)
        self._third_parties = ThirdParties(provenances.passages)
        self._descriptions = Descriptions(provenances)

    def assess(self, call: ToolCall, kind: ToolKind, allowed: Set[str] = frozenset()) -> Assessment:
        """The strongest evidence for one of the call's arguments, or for the call without any.

        `allowed`: arguments that the settings allow; then only the others are judged, and not the call as a whole.
        """
        description = self._described(call, kind, allowed)
        best = Assessment() if allowed else assessment(description | self._whole_call(call, kind))
        for argument, evidence in self._by_argument(call, kind, allowed):
            result = assessment(description | evidence, argument)
            best = result if evidence and result.score > best.score else best
        return best

    def _by_argument(self, call: ToolCall, kind: ToolKind, allowed: Set[str]) -> Iterator[tuple[Argument, Evidence]]:
        """The evidence against each value, and against the links in what is written for people."""
        for argument in arguments_of(call.arguments, allowed):
            yield argument, self._evidence(argument.atom, call, kind)
        for argument in links_of(call.arguments, allowed):
            yield argument, self._fetch(argument.atom)

    def _described(self, call: ToolCall, kind: ToolKind, allowed: Set[str]) -> Evidence:
        """Evidence from the sentence that describes the call best, and from what the call does."""
        evidence = weights(*(["reads"] if kind.tool_class is ToolClass.READS else ["delicate"] if kind.object else []))
        best = self._descriptions.best(call, allowed)
        if best is None:
            return evidence
        if self._request.points:
            evidence |= weights("pointed_at")
        around = best.passage.around
        names = {
            "addressed": mentions(around, "machines"),
            "redirected": mentions(around, "redirects"),
            "names_tool": _names(best.passage, call.name),
        }
        evidence |= weights(*(name for name, is_found in names.items() if is_found))
        return evidence | graded(
            described=best.length, spelled_out=best.values, arguments_named=best.arguments, subject=best.subject
        )

    def assess_link(self, url: str) -> Assessment:
        """The evidence against a link in the answer's text, which a client may fetch by itself."""
        atom = Atom(AtomKind.URL, url, url)
        evidence = self._fetch(atom)
        if not evidence:
            return Assessment()
        call = ToolCall("", {"link": url})
        return assessment(
            self._described(call, ToolKind(ToolClass.SENDS), frozenset()) | evidence, Argument("link", atom)
        )

    def _evidence(self, atom: Atom, call: ToolCall, kind: ToolKind) -> Evidence:
        if kind.tool_class is ToolClass.READS:
            return self._fetch(atom) if atom.kind is AtomKind.URL else self._secret(atom, call.name)
        host = _host(atom) if atom.kind is AtomKind.URL else None
        if self._provenances.is_trusted(atom) or (host and self._provenances.is_trusted(host)):
            return {}
        places = self._provenances.places(atom) or (self._provenances.places(host) if host else [])
        if not places:
            return {}
        link = weights("no_link_asked") if host and not self._request.is_about_links else {}
        return self._asking(kind) | self._surroundings(atom, places, call.name, kind) | link

    def _whole_call(self, call: ToolCall, kind: ToolKind) -> Evidence:
        """Evidence against an action that nobody asked for and that a third party names or asks for."""
        asking = self._asking(kind)
        if "unasked" not in asking or (kind.tool_class in _MILD and not kind.object):
            return {}
        evidence_names = self._third_parties.about(call, kind)
        return asking | weights(*evidence_names) if evidence_names else {}

    def _fetch(self, url: Atom) -> Evidence:
        """Evidence against fetching a URL that carries data to a host that only third parties have named."""
        host = _host(url)
        if not carries_data(url.text) or self._provenances.places(url) or self._provenances.is_trusted(host):
            return {}
        places = self._provenances.places(host)
        if not places:
            return {}
        is_template = any(is_template_of(place.text, url.text) for place in places)
        is_filled = is_template and not all(map(self._user.said, query_values(url.text)))
        return self._surroundings(host, places) | weights("composed", *(["filled_in"] if is_filled else []))

    def _secret(self, atom: Atom, tool: str) -> Evidence:
        """Evidence against reading a file with secrets that only third parties have named."""
        if atom.kind is not AtomKind.PATH or not SECRET_PATH.search(atom.text) or self._provenances.is_trusted(atom):
            return {}
        places = [place for place in self._provenances.places(atom) if not place.structured]
        return self._surroundings(atom, places, tool) | weights("secret") if places else {}

    def _asking(self, kind: ToolKind) -> Evidence:
        if self._request.covers(kind):
            return {}
        return weights("loosely_asked" if self._request.implies(kind) else "unasked")

    def _surroundings(
        self, atom: Atom, places: list[Passage], tool: str = "", kind: ToolKind | None = None
    ) -> Evidence:
        """Evidence from where a value stands, and from the words around it. Without a `kind`: of a link."""
        prose = [place for place in places if not place.structured]
        evidence_names = {
            "names_tool": any(_names(place, tool) for place in prose),
            "addressed": any(mentions(place.around, "machines") for place in prose),
            "redirected": any(mentions(place.around, "redirects") for place in prose),
            "requested_there": kind is not None and self._is_requested(prose, kind),
            "replaces": self._replaces(atom, prose),
            "better_candidate": self._has_better(atom, places),
            "finding": any(place.result in self._suspicious for place in places),
            "same_domain": atom.kind is AtomKind.EMAIL
            and any(_domain(atom) in self._provenances.senders(place.result) for place in prose),
            "linked": any(self._user.shared(place.record) for place in places if place.structured),
        }
        return weights(*(name for name, is_found in evidence_names.items() if is_found))

    def _is_requested(self, prose: list[Passage], kind: ToolKind) -> bool:
        """Whether a sentence asks for such an action; mails and payments that the user asked for aside."""
        is_social = kind.families <= _SOCIAL
        if is_social and self._request.covers(kind):
            return False
        texts = (place.text if is_social else place.around for place in prose)
        return any(self._third_parties.solicited(text) & kind.families for text in texts)

    def _replaces(self, atom: Atom, prose: list[Passage]) -> bool:
        """Whether each sentence with a value moves something, and one with another value of its kind does not."""
        if atom.kind not in _MOVED or not prose or not all(mentions(place.text, "redirects") for place in prose):
            return False
        results = {place.result for place in prose}
        alternatives = (place for place in self._provenances.passages if place.result in results)
        return any(_has_other(place, atom) and not mentions(place.text, "redirects") for place in alternatives)

    def _has_better(self, atom: Atom, places: Iterable[Passage]) -> bool:
        """Whether another value of the kind, in a field, fits the user's words better; any does if this is in prose."""
        own = max(
            (self._user.shared(place.record) if place.structured else self._user.named(place.text) for place in places),
            default=-1,
        )
        if atom.kind in _SINGLE or (atom.kind is AtomKind.IDENTIFIER and any(place.structured for place in places)):
            return False
        alternatives = self._provenances.others(atom)
        return any(
            self._user.shared(place.record) > own and _shape(other) == _shape(atom) for other, place in alternatives
        )


def _names(place: Passage, tool: str) -> bool:
    """Whether a text names a tool, if its name is not a plain word."""
    return is_distinctive(tool) and tool.casefold() in place.text.casefold()


def _has_other(place: Passage, atom: Atom) -> bool:
    """Whether a passage holds another value of the kind."""
    return any(
        other.kind is atom.kind and other.key != atom.key and _shape(other) == _shape(atom) for other in place.atoms
    )


def _domain(address: Atom) -> str:
    return address.key.rpartition("@")[2]


def _host(url: Atom) -> Atom:
    host = url_host(url.text)
    return Atom(AtomKind.HOST, host, host)


def _shape(atom: Atom) -> str:
    """Values of one kind are alternatives; identifiers only if they are built alike."""
    return re.sub(r"\d+", "9", atom.key) if atom.kind is AtomKind.IDENTIFIER else atom.kind
