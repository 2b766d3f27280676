"""Twin of sidecar/detectors/semantic/views.py."""

from __future__ import annotations

import base64

import pytest

from sidecar.detectors.semantic.views import views_to_score


def steps(text: str) -> list[tuple[str, ...]]:
    """The paths of the views."""
    return [view.path for view in views_to_score(text)]


def test_the_text_itself_comes_first() -> None:
    """And is all that there is of ordinary text."""
    assert steps("What time does the harbour open on Sunday?") == [()]


def test_what_is_hidden_is_a_view_of_its_own() -> None:
    """Decoded, with what was decoded marked."""
    sentence = "The harbour opens at nine o'clock on Sundays."
    hidden = base64.b64encode(sentence.encode()).decode()
    decoded = [view for view in views_to_score(f"Please read {hidden} to me.") if view.path == ("base64",)]
    assert [view.text[slice(*view.replaced[0])] for view in decoded] == [
        "The harbour opens at nine o'clock on Sundays."
    ]


@pytest.mark.parametrize("text", ["https://a.example/?q=the%20harbour%20opens", "Th3 h4rb0ur op3ns 4t n1n3 0'cl0ck"])
def test_common_encodings_are_not_hidden(text: str) -> None:
    """Addresses and leetspeak are everywhere."""
    assert not any({"url", "leet"} & set(path) for path in steps(text))
