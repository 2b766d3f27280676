"""The proposed rules as a policy file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import yaml

from sidecar.harden import phrases
from sidecar.harden.proposals import Proposal
from sidecar.types import Label

HEAD = """\
# Proposed by `sidecar harden` from what got through. `status: test` reports and decides nothing: read each pattern,
# add near misses of your own to `no_match`, count the rule on ordinary texts (`sidecar check --coverage FILE`), then
# make it a `hint` or `block`.
"""


def policy_file(proposals: Sequence[Proposal]) -> str:
    """The content of the file. Characters beyond ASCII are escaped, as invisible ones should be."""
    rules = [proposal.values() for proposal in proposals]
    values = {"family": _family(proposals), "words": phrases.WORDS, "rules": rules}
    return HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=False, width=110)


def _family(proposals: Sequence[Proposal]) -> str:
    """The label of most rules; each rule states its own besides."""
    counts = Counter(proposal.candidate.label for proposal in proposals)
    return str(min(counts, key=lambda label: (-counts[label], label), default=Label.PROMPT_INJECTION))
