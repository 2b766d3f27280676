"""Twin of sidecar/policy/inheritance.py: the terms in force, and where each comes from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from sidecar.config import Settings
from sidecar.policy.inheritance import GENERAL, KEY, is_refused, terms_of
from sidecar.storage import ApiKey
from sidecar.util.units import Rate

SETTINGS = Settings.model_validate(
    {
        "models": {"m": {"threshold": 0.3}},
        "rules": {"INJ-1": {"score": 0.2}},
        "profiles": {
            "strict": {
                "threshold": 0.4,
                "sources": {"model": {"threshold": 0.7}},
                "pii": "block",
                "untrusted": "fence",
                "rules": {"INJ-2": {"status": "off"}},
                "failure": {"input": {"media": "block"}},
                "budget": "6000/minute",
            }
        },
    }
)
PLAIN = ApiKey("8XWMibO0", "team-a", "production", datetime.now(UTC))


def terms(key: ApiKey) -> dict[str, tuple[str, str]]:
    """Value and origin by name."""
    return {term.name: (term.value, term.origin) for term in terms_of(SETTINGS, key)}


def test_a_key_without_terms_has_those_of_all() -> None:
    """Each of them is named with its value."""
    found = terms(PLAIN)
    assert {origin for _, origin in found.values()} == {GENERAL}
    assert found["rate"] == ("600/minute", GENERAL)
    assert found["threshold, application"] == ("0.9", GENERAL)
    assert found["threshold, model m"] == ("0.3", GENERAL)
    assert found["failure.input.media"] == ("allow", GENERAL)
    assert found["rule INJ-1"] == ("0.2", GENERAL)


def test_a_profile_stands_before_the_settings_for_all() -> None:
    """What it names has its name as origin; its threshold holds for every source and model."""
    found, origin = terms(replace(PLAIN, profile="strict")), "profile strict"
    assert found["threshold, application"] == ("0.4", origin)
    assert found["threshold, model"] == ("0.7", origin)
    assert "threshold, model m" not in found
    assert (found["pii"], found["untrusted"]) == (("block", origin), ("fence", origin))
    assert found["failure.input.media"] == ("block", origin)
    assert found["failure.all"] == ("block", GENERAL)
    assert found["budget of the profile"] == ("6000/minute", origin)
    assert (found["rule INJ-1"], found["rule INJ-2"]) == (("0.2", GENERAL), ("off", origin))


def test_a_keys_own_terms_stand_before_its_profile() -> None:
    """Its threshold holds for every source, also those that the profile names."""
    key = replace(PLAIN, profile="strict", threshold=0.55, mode="monitor", rate=Rate(5, 60.0), burst=2)
    found = terms(key)
    assert {found[f"threshold, {source}"] for source in ("user", "application", "model")} == {("0.55", KEY)}
    assert (found["mode"], found["rate"], found["burst"]) == (("monitor", KEY), ("5/minute", KEY), ("2", KEY))
    assert found["pii"] == ("block", "profile strict")


def test_a_profile_that_is_not_configured_leaves_no_terms() -> None:
    """The requests of such a key are refused."""
    key = replace(PLAIN, profile="gone")
    assert is_refused(SETTINGS, key)
    assert terms(key) == {}
    assert not is_refused(SETTINGS, PLAIN)
