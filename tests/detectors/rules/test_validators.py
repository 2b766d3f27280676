"""Validators of data with a checksum or structure."""

from __future__ import annotations

import random

import pytest

from sidecar import policy
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.detectors.rules.validators import CHECKS
from sidecar.types import Label, ScanRequest, Segment

PII_RULES = tuple(rule for rule in policy.load().rules if rule.label is Label.PII_DETECTED)
LAYER = RulesLayer(policy.Policy(rules=PII_RULES, revision="test"))
BLOCKS = 0.6
ODD = (
    "",
    " ",
    "+",
    "-",
    "::",
    "0",
    "é",
    "ſ\u212a",
    "١٢٣٤٥٦٧٨٩",
    "\x00",
    "a" * 500,
    "9" * 500,
    "\U0001f600",
    "1" * 19 + "é",
)


@pytest.mark.parametrize(
    ("name", "text", "sound"),
    [
        ("luhn", "4111 1111 1111 1111", True),
        ("luhn", "4111-1111-1111-1112", False),
        ("luhn", "0000 0000 0000 0000", False),
        ("card", "4111 1111 1111 1111", True),
        ("card", "378282246310005", True),
        ("card", "3782822463100058", False),
        ("card", "9999888877776667", False),
        ("card", "4005535389022", False),  # an article number (EAN)
        ("iban", "DE89 3704 0044 0532 0130 00", True),
        ("iban", "DE89 3704 0044 0532 0130 00 to", True),
        ("iban", "DE89 3704 0044 0532 0130 01", False),
        ("ip", "81.169.145.66", True),
        ("ip", "2a01:4f8:c17:b8f:0:0:0:2", True),
        ("ip", "192.168.178.1", False),
        ("ip", "255.255.255.0", False),
        ("ip", "81.169.145.266", False),
        ("ip", "version 81.169.145.66", False),
        ("ip", "7.3.5.1", False),
        ("mac", "3c:22:fb:9a:41:0e", True),
        ("mac", "3c:22:fb:9a:41:0e:77", False),
        ("mac", "ff:ff:ff:ff:ff:ff", False),
        ("wallet", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", True),
        ("wallet", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3", False),
        ("wallet", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", True),
        ("wallet", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdp", False),
        ("varied", "sk-Ex4mpleNotReal0123456789", True),
        ("varied", "sk-xxxxxxxxxxxxxxxxxxxx", False),
        ("token_live", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln", True),
        ("token_live", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE2MDAwMDAwMDB9.c2ln", False),
        ("token_live", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOiJuZXZlciJ9.c2ln", False),
        ("token_undated", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", True),
        ("token_undated", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln", False),
        ("token_undated", "no token", False),
        ("birth", "born on 3 May 1990", True),
        ("birth", "born on 27 January 1756", False),
        ("birth", "born on 1 May 2999", False),
        ("street", "42 Old Mill Road", True),
        ("street", "12 March 2020", False),
        ("unescaped", "y0u mu57 r34d", True),
        ("unescaped", r"rol\u0119 sprzedawczyni", False),
        ("us.ssn", "536-22-8145", True),
        ("us.ssn", "666-22-8145", False),
        ("us.ssn", "123-45-6789", False),
    ],
)
def test_check_digits(name: str, text: str, sound: bool) -> None:
    """A wrong checksum, length or range is rejected."""
    assert CHECKS[name](text) is sound


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_no_check_ever_raises(name: str) -> None:
    """No input raises: empty, other scripts, oversized, noise."""
    rng = random.Random(name)  # noqa: S311 - noise, not secrets
    noise = ["".join(rng.choices("0123456789ABXZ+-./: é", k=rng.randrange(24))) for _ in range(300)]
    assert {type(CHECKS[name](text)) for text in (*ODD, *noise)} == {bool}


@pytest.mark.parametrize("name", sorted(set(CHECKS) - {"luhn"}))
def test_every_check_is_asked_by_a_rule(name: str) -> None:
    """`luhn` alone is for custom rules."""
    assert any(rule.check == name for rule in policy.load().rules)


def test_personal_data_alone_never_blocks() -> None:
    """Every kind stays below the threshold, and only secrets come near it."""
    assert all(rule.score < BLOCKS for rule in PII_RULES)


@pytest.mark.parametrize("text", ["4111111111111111 ", "DE89370400440532013000 ", "call +49 30 2312504, "])
async def test_a_text_of_nothing_but_data_has_bounded_findings(text: str) -> None:
    """The number of validated places is bounded."""
    report = await LAYER.scan(ScanRequest((Segment(text * 3000),)), ())
    patterns = sum(len(rule.patterns) for rule in PII_RULES)
    assert 256 <= len(report.findings) <= 256 * patterns
    assert max(sum(f.rule == rule.id for f in report.findings) for rule in PII_RULES) <= 256 * 3
