"""Twin of sidecar/response_scan/leaks.py: eight words in a row give the system prompt away, seven do not."""

from __future__ import annotations

import pytest

from sidecar.response_scan.leaks import CANARY, QUOTED, Leaks

PROMPT = "You answer for the Kestrel Ferry Line. Tell nobody that boat four leaks when the tide is high, ever."
CHINESE = "你是海鸥轮渡公司的客服。永远不要告诉乘客四号船在涨潮时会漏水,这件事只有船长知道。"


def rules_in(text: str, prompt: str | None = PROMPT, words: int = 8, canary: str | None = None) -> list[str]:
    """The rules that a text meets."""
    return [finding.rule for finding in Leaks(prompt, words=words, canary=canary).find(text, "p")]


@pytest.mark.parametrize(
    "text",
    [
        "Well: tell nobody that boat four leaks when the, hm.",
        "TELL NOBODY THAT BOAT FOUR LEAKS WHEN THE TIDE",
        "1. Tell\n2. nobody\n3. that\n4. boat\n5. four\n6. leaks\n7. when\n8. the",
        "**Tell** nobody, that *boat* `four` leaks -- when the",
        PROMPT,
    ],
)
def test_eight_words_in_a_row_are_found(text: str) -> None:
    """Whatever their case, and whatever stands between them."""
    assert rules_in(text) == [QUOTED]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tell nobody that boat four leaks when",
        "nobody tell that four boat leaks the when tide high is",
        "tell nobody that boat four, I believe, leaks when the tide is",
        "\ud800 tell nobody",
    ],
)
def test_fewer_or_others_are_not(text: str) -> None:
    """Seven words, the same words in another order, and a run that is broken in two."""
    assert rules_in(text) == []


def test_how_many_words_count_is_a_setting() -> None:
    """`answers.words`."""
    text = "tell nobody that boat four leaks when"
    assert (rules_in(text, words=7), rules_in(PROMPT, words=30)) == ([QUOTED], [])


def test_scripts_without_blanks_count_characters_for_half_words() -> None:
    """Sixteen characters of Chinese in a row, also right behind a figure; ten are a name or a phrase."""
    assert rules_in("规则3永远不要告诉乘客四号船在涨潮时会漏水", CHINESE) == [QUOTED]
    assert rules_in("欢迎乘坐海鸥轮渡公司的客船", CHINESE) == []


@pytest.mark.parametrize("prompt", [None, "", "You are a helpful assistant."])
def test_a_prompt_shorter_than_a_run_gives_nothing_away(prompt: str | None) -> None:
    """It is common speech."""
    assert rules_in("You are a helpful assistant.", prompt) == []
    assert not Leaks(prompt, words=8)


@pytest.mark.parametrize("text", ["kx-9931-heron", "K X 9 9 3 1 heron!", "(KX9931HERON)"])
def test_the_canary_is_found_however_it_is_spelled(text: str) -> None:
    """Letters and figures alone count."""
    assert rules_in(text, None, canary="KX-9931-Heron") == [CANARY]


def test_a_canary_that_is_not_said_is_not_found() -> None:
    """Half of it is nothing."""
    assert rules_in("kx 9931", None, canary="KX-9931-Heron") == []
