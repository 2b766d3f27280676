"""Scores one action by its evidence: was such an action asked for, and who chose whom or what it reaches.

Each piece of evidence has a name and a weight, and the score is their sum, so that a refusal can say why. An argument
that only third parties have said is no offence by itself: the invoice names the account, the mail its sender. What
counts is that nobody asked for such an action, that the value stands in prose instead of a field, that the prose around
it presses for the action or moves it elsewhere, and that another value fits what the user named better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from sidecar.actions.arguments import Argument, arguments_of
from sidecar.actions.atoms import Atom, AtomKind, url_host
from sidecar.actions.conversation import ToolCall
from sidecar.actions.disclosure import SECRET_PATH, carries_data, is_template_of, query_values
from sidecar.actions.evidence import Assessment, Evidence, assessment, weights
from sidecar.actions.passages import Passage
from sidecar.actions.provenance import Provenances
from sidecar.actions.requests import UserRequest, UserWords, words_of
from sidecar.actions.third_parties import ThirdParties, is_distinctive
from sidecar.actions.tool_classes import ToolClass, ToolKind
from sidecar.actions.vocabulary import mentions

_INVENTED = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT})
"""Kinds that a model does not make up: one that nobody said was put together from parts."""
_SINGLE = frozenset({AtomKind.PATH, AtomKind.COMMAND})
"""Kinds of which others in the text are no alternatives."""
_SOCIAL = frozenset({"send", "share", "post", "pay", "change"})
"""Families of actions for which letters and invoices ask every day."""
_HARMLESS = frozenset({ToolClass.READS, ToolClass.WRITES})
"""Classes that do no harm without an argument that does, or an object that is delicate."""
_MOVED = frozenset({AtomKind.EMAIL, AtomKind.ACCOUNT, AtomKind.PHONE, AtomKind.URL, AtomKind.HOST, AtomKind.IDENTIFIER})


class Assessor:
    """Assesses actions against one conversation. `suspicious`: results in which a layer has found something."""

    def __init__(self, provenances: Provenances, suspicious: frozenset[int] = frozenset()) -> None:
        self._provenances = provenances
        self._request = UserRequest(provenances.user_text)
        self._suspicious = suspicious
        self._user = UserWords(provenances.user_text)
        self._third_parties = ThirdParties(provenances.passages)

    def assess(self, call: ToolCall, kind: ToolKind, allowed: Set[str] = frozenset()) -> Assessment:
        """The strongest evidence among the call's arguments, those aside that the settings allow by name."""
        best = Assessment() if allowed else self._whole_call(call, kind)
        for argument in arguments_of(call.arguments, allowed):
            evidence = self._evidence(argument.atom, call, kind)
            result = assessment(evidence, argument)
            best = result if result.score > best.score else best
        return best

    def assess_link(self, url: str) -> Assessment:
        """The evidence against a link in the answer's text, which a client may fetch by itself."""
        atom = Atom(AtomKind.URL, url, url)
        return assessment(self._fetch(atom), Argument("link", atom))

    def _evidence(self, atom: Atom, call: ToolCall, kind: ToolKind) -> Evidence:
        if kind.tool_class is ToolClass.READS:
            return self._fetch(atom) if atom.kind is AtomKind.URL else self._secret(atom, call.name)
        host = _host(atom) if atom.kind is AtomKind.URL else None
        if self._provenances.is_trusted(atom) or (host and self._provenances.is_trusted(host)):
            return {}
        places = self._provenances.places(atom) or (self._provenances.places(host) if host else [])
        if not places:
            is_unheard = atom.kind in _INVENTED and bool(self._provenances.passages) and not self._is_spelt_out(atom)
            return self._asking(kind) | weights("unheard") if is_unheard and not atom.text.isdigit() else {}
        link = weights("no_link_asked") if host and not self._request.is_about_links else {}
        return self._asking(kind) | self._surroundings(atom, places, call.name, kind) | link

    def _is_spelt_out(self, atom: Atom) -> bool:
        """Whether an address is made of a name that the user said and a host that is in use."""
        if atom.kind is not AtomKind.EMAIL or words_of(atom.key.partition("@")[0]).isdisjoint(self._user.all):
            return False
        host = Atom(AtomKind.HOST, _domain(atom), _domain(atom))
        return self._provenances.is_trusted(host) or self._provenances.is_sender(_domain(atom))

    def _whole_call(self, call: ToolCall, kind: ToolKind) -> Assessment:
        """Evidence against an action that nobody asked for and that a third party names or asks for."""
        asking = self._asking(kind)
        if "unasked" not in asking or (kind.tool_class in _HARMLESS and not kind.object):
            return Assessment()
        evidence_names = self._third_parties.about(call, kind)
        return assessment(asking | weights(*evidence_names)) if evidence_names else Assessment()

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
        is_covered = kind is not None and self._request.covers(kind)
        prose = [place for place in places if not place.structured]
        in_field = not prose if atom.kind is AtomKind.COMMAND else len(prose) < len(places)
        evidence_names = self._beside(atom, places, prose, tool)
        if in_field and any(self._user.shared(place.record) for place in places if place.structured):
            evidence_names.append("linked")
        if kind and self._request.points and (is_covered or self._request.delegates):
            return weights(*evidence_names)
        families = kind.families if kind else frozenset()
        is_social = families <= _SOCIAL
        if any(self._third_parties.solicited(place.text if is_social else place.around) & families for place in prose):
            evidence_names.append("solicited" if is_covered and is_social else "requested_there")
        if self._has_better(atom, places):
            evidence_names.append("better_candidate")
        return weights(*evidence_names, *([] if in_field else ["prose"]))

    def _beside(self, atom: Atom, places: list[Passage], prose: list[Passage], tool: str) -> list[str]:
        """What counts even if the user points at the text."""
        evidence_names = {
            "names_tool": any(_names(place, tool) for place in prose),
            "addressed": any(mentions(place.around, "machines") for place in prose),
            "redirected": any(mentions(place.around, "redirects") for place in prose),
            "finding": any(place.result in self._suspicious for place in places),
            "same_domain": atom.kind is AtomKind.EMAIL
            and any(_domain(atom) in self._provenances.senders(place.result) for place in prose),
            "replaces": self._replaces(atom, prose),
        }
        return [name for name, is_found in evidence_names.items() if is_found]

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
