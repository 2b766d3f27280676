"""Passwords of the dashboard."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.dashboard.passwords import MAX_HASHING, MAX_WAITING, Passwords, problem
from sidecar.errors import RateLimited

GOOD = "correct horse battery"


async def test_a_password_is_known_again_by_its_hash() -> None:
    """Salted, argon2id; a damaged hash lets nobody in."""
    passwords = Passwords()
    first, second = await passwords.hash(GOOD), await passwords.hash(GOOD)
    assert first != second
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await passwords.verify(GOOD, first)
    assert not await passwords.verify(GOOD + "x", first)
    assert not await passwords.verify(GOOD, "damaged")
    assert not await passwords.verify("nobody has this password", None)


async def test_a_crowd_is_turned_away() -> None:
    """So many compute, so many wait, and the others are told to come back."""
    passwords = Passwords()
    hashed = await passwords.hash(GOOD)
    await passwords.verify(GOOD, None)
    crowd = (passwords.verify("x" * 100_000, hashed) for _ in range(MAX_HASHING + MAX_WAITING + 3))
    outcomes = await asyncio.gather(*crowd, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome is False] == [False] * (MAX_HASHING + MAX_WAITING)
    assert len([outcome for outcome in outcomes if isinstance(outcome, RateLimited)]) == 3


@pytest.mark.parametrize("bad", ["", "short", "x" * 201, "ada.lovelace1", "abababababababab", "            "])
def test_a_password_must_be_worth_something(bad: str) -> None:
    """Neither too short, nor too long, nor the name, nor a few characters again and again."""
    assert problem(bad, "ada.lovelace1")
    assert problem(GOOD, "ada") is None
