"""Twin of sidecar/server/refused_keys.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sidecar.errors import RateLimited, Unauthorized
from sidecar.server import refused_keys
from sidecar.server.refused_keys import RefusedKeys
from sidecar.util import json, logs


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the log so far."""
    output = capsys.readouterr()
    return [json.loads(line) for line in (output.out + output.err).splitlines()]


def refusal(reason: str, key_id: str | None = None) -> Unauthorized:
    """What the key ring raises."""
    return Unauthorized("The API key is not valid.", reason=reason, key_id=key_id)


async def test_the_first_refusal_is_logged_at_once_and_others_are_summed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the ids of keys that were once valid; a quiet address begins anew."""
    logs.configure("json", "info")
    refused = RefusedKeys(interval=0.2)
    refused.note("192.0.2.1", refusal("unknown"))
    (first,) = lines(capsys)
    assert (first["event"], first["level"]) == ("keys_refused", "warning")
    assert (first["client"], first["count"], first["reasons"]) == ("192.0.2.1", 1, "unknown 1")
    for error in (refusal("unknown"), refusal("revoked", "8fKq2mZx"), RateLimited("wait", retry_after=1)):
        refused.note("192.0.2.1", error)
    assert lines(capsys) == []
    await asyncio.sleep(0.3)
    (second,) = lines(capsys)
    assert (second["count"], second["key_ids"]) == (3, "8fKq2mZx")
    assert second["reasons"] == "revoked 1, too many 1, unknown 1"
    await asyncio.sleep(0.3)
    assert lines(capsys) == []
    refused.note("192.0.2.1", refusal("expired", "8fKq2mZx"))
    assert [line["reasons"] for line in lines(capsys)] == ["expired 1"]


async def test_many_addresses_share_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood from everywhere is counted, in a bounded number of lines."""
    logs.configure("json", "info")
    monkeypatch.setattr(refused_keys, "MAX_ADDRESSES", 2)
    refused = RefusedKeys(interval=0.1)
    for number in range(10):
        refused.note(f"192.0.2.{number}", refusal("unknown"))
    assert [line["client"] for line in lines(capsys)] == ["192.0.2.0", "192.0.2.1", "others"]
    await asyncio.sleep(0.2)
    assert [(line["client"], line["count"]) for line in lines(capsys)] == [("others", 7)]


async def test_the_end_of_the_process_logs_what_was_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Not only at the end of the minute; without a count there is no line."""
    logs.configure("json", "info")
    refused = RefusedKeys()
    refused.close()
    refused.note("192.0.2.1", refusal("unknown"))
    refused.note("192.0.2.1", refusal("unknown"))
    refused.close()
    assert [line["count"] for line in lines(capsys)] == [1, 1]
