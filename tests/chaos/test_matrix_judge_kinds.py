"""Failure matrix, row of the judge's kinds: each of them behind a complete sidecar, closed and open."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.test_matrix_judge import judged
from chaos.world import ATTACK, PATIENT
from detectors.judge.judge_kinds import KINDS, VERDICT

from sidecar.storage import Store

SUSPICIOUS = "Can a child hack this egg timer?"
"""No rule matches it, and the honest judge takes it for an attack."""


async def cause_of(store_url: str, decision: str) -> str | None:
    """Why the judge had no opinion on a decision; None if it had one."""
    store = await Store.open(store_url)
    try:
        row = await store.decisions.get(decision)
    finally:
        await store.close()
    assert row is not None
    return next((layer["failure"] for layer in row.layers if layer["layer"] == "llm_judge"), None)


def test_there_are_enough_kinds() -> None:
    """At least 38, of which some are understood and some are not."""
    understood = [name for name, kind in KINDS.items() if kind.outcome == VERDICT]
    assert len(KINDS) >= 38
    assert 10 < len(understood) < len(KINDS) - 20


@pytest.mark.parametrize("policy", ["block", "skip"])
@pytest.mark.parametrize("name", KINDS)
async def test_a_judge_of_each_kind(tmp_path: Path, name: str, policy: str) -> None:
    """Its opinion counts where it is understood; else closed is 503, and open leaves it to the rules. Never "safe"."""
    kind = KINDS[name]
    patient = {"timeout": kind.timeout, "control": True}
    sections = {"failure": {"llm_judge": policy}, "judge": patient, "scan": {"deadline": "60s"}, "upstream": PATIENT}
    async with judged(tmp_path, **sections) as (here, _, judge, upstream, store):
        judge.answer = kind.answer
        harmless, suspicious = await here.inline(), await here.inline(SUSPICIOUS)
        scanned, blocked = await here.scan(SUSPICIOUS), await here.inline(ATTACK)
        assert judge.calls > 0
    failed = {"block": (503, 503, 503), "skip": (200, 200, 200)}[policy]
    expected = (200, 400, 200) if kind.outcome == VERDICT else failed
    assert (harmless.status, suspicious.status, scanned.status) == expected
    assert blocked.status == 400
    assert len(upstream.bodies) == (harmless.status, suspicious.status).count(200)
    if scanned.status == 200:
        assert scanned.json["action"] == ("block" if kind.outcome == VERDICT else "allow")
    cause = await cause_of(store, harmless.headers["x-sidecar-decision"])
    assert (cause or VERDICT) == kind.outcome
