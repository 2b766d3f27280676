"""Policies: read strictly, all problems at once, one digest for one set of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import policy
from sidecar.errors import PolicyError
from sidecar.types import Channel, Label

GOOD = """
family: prompt_injection
words: {orders: 'rules|orders', cancel: 'drop|ditch'}
rules:
  - id: T-1
    title: A test
    score: 0.9
    indirect_score: 0.5
    languages: [en]
    patterns: ['\\b{cancel} the {orders}\\b', '[\\x{ad}]{2}']
    match: [Drop the orders.]
    no_match: [Drop the ball.]
"""


def write(folder: Path, text: str, name: str = "t.yaml") -> Path:
    """A policy file."""
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def problems(*paths: Path) -> str:
    """The problems of files that do not load."""
    with pytest.raises(PolicyError) as caught:
        policy.load(paths)
    return "\n".join(caught.value.problems)


def test_a_rule_has_its_family_for_label_and_a_score_per_channel(tmp_path: Path) -> None:
    """The indirect channel may weigh differently."""
    (rule,) = policy.load([write(tmp_path, GOOD)]).rules
    assert rule.label is Label.PROMPT_INJECTION
    assert (rule.score_on(Channel.DIRECT), rule.score_on(Channel.INDIRECT)) == (0.9, 0.5)


def test_a_rule_may_state_another_label_than_its_file(tmp_path: Path) -> None:
    """It has precedence over the family."""
    (rule,) = policy.load([write(tmp_path, GOOD.replace("    score:", "    label: jailbreak\n    score:"))]).rules
    assert rule.label is Label.JAILBREAK
    wrong = write(tmp_path, GOOD.replace("    score:", "    label: mischief\n    score:"))
    assert "T-1: label: must be" in problems(wrong)


def test_what_the_application_says_is_read_only_by_rules_that_list_it(tmp_path: Path) -> None:
    """It may have a score of its own there."""
    (rule,) = policy.load([write(tmp_path, GOOD)]).rules
    assert rule.score_on(Channel.APPLICATION) is None
    listed = "channels: [direct, application]\n    application_score: 0.95\n    languages:"
    (rule,) = policy.load([write(tmp_path, GOOD.replace("languages:", listed))]).rules
    assert (rule.score_on(Channel.DIRECT), rule.score_on(Channel.APPLICATION)) == (0.9, 0.95)


def test_a_rule_says_nothing_on_a_channel_that_it_does_not_list(tmp_path: Path) -> None:
    """`channels: [indirect]` is silent about what people type."""
    (rule,) = policy.load([write(tmp_path, GOOD.replace("languages:", "channels: [indirect]\n    languages:"))]).rules
    assert rule.score_on(Channel.DIRECT) is None


def test_words_are_put_into_patterns_and_classes_are_left_alone(tmp_path: Path) -> None:
    """`{orders}` is a word of the file, a code point in braces is RE2's."""
    (rule,) = policy.load([write(tmp_path, GOOD)]).rules
    assert rule.patterns[0] == r"\b(?:drop|ditch) the (?:rules|orders)\b"
    assert rule.patterns[1] == r"[\x{ad}]{2}"


def test_a_file_states_the_status_of_its_rules(tmp_path: Path) -> None:
    """A rule's own status has precedence."""
    stated = GOOD.replace("family: prompt_injection", "family: prompt_injection\nstatus: fallback")
    assert policy.load([write(tmp_path, GOOD)]).rules[0].status == "block"
    assert policy.load([write(tmp_path, stated)]).rules[0].status == "fallback"
    own = stated.replace("    no_match", "    status: test\n    no_match")
    assert policy.load([write(tmp_path, own)]).rules[0].status == "test"


def test_patterns_ignore_case_by_default(tmp_path: Path) -> None:
    """`(?-i)` switches that off."""
    assert policy.compiled("drop").search("DROP")
    assert not policy.compiled("(?-i)drop").search("DROP")


def test_the_revision_names_the_content(tmp_path: Path) -> None:
    """Same files, same twelve characters; one changed letter, others."""
    path = write(tmp_path, GOOD)
    first = policy.load([path]).revision
    assert first == policy.load([tmp_path]).revision
    write(tmp_path, GOOD.replace("A test", "A tesT"))
    assert len(first) == 12
    assert first != policy.load([path]).revision


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("score: 0.9", "score: 1.9", "T-1: score: must be at most 1.0, not 1.9"),
        ("title: A test", "titel: A test", "T-1: titel: unknown key"),
        ("    match: [Drop the orders.]\n", "", "T-1: match: is missing"),
        ("[Drop the ball.]", "[]", "T-1: needs at least one match and one no_match line"),
        ("    no_match", "    similar_to: [x]\n    no_match", "needs exactly one of patterns, hidden_in"),
        ("\\b{cancel}", "(\\b{cancel}", "T-1: pattern"),
        ("{cancel} the", "{nothing} the", "T-1: {nothing} is not defined under words"),
        ("'rules|orders'", "'rules|{orders}'", "defined by themselves"),
        ("    no_match", "    topic: denied\n    no_match", "T-1: topic belongs to similar_to"),
        ("id: T-1", "id: t1", "t1: id: does not have the form"),
        ("prompt_injection", "mischief", "family: must be"),
        ("prompt_injection", "prompt_injektion", "; did you mean prompt_injection?"),
        ("\\b{cancel}", "(?=x){cancel}", "RE2 has no look-ahead and no look-behind"),
        ("    no_match", "    context: [x]\n    no_match", "context and context_score belong together"),
        ("rules:", "rulez:", "rulez: unknown key; did you mean rules?"),
        (
            "    no_match",
            "    no_match: [a]\n    no_match",
            "line 13, 'no_match' is set twice, first in line 12",
        ),
        ("    no_match", "    status: stable\n    no_match", "`stable` is now called `block`"),
        (
            "    no_match",
            "    status: blocks\n    no_match",
            "status: must be 'block', 'fallback',",
        ),
    ],
)
def test_a_wrong_policy_says_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Every problem names the file, the rule and the key."""
    text = problems(write(tmp_path, GOOD.replace(old, new)))
    assert "t.yaml: " in text
    assert said in text


def test_a_pattern_in_double_quotes_is_told_of(tmp_path: Path) -> None:
    r"""There `\b` is a backspace, which no text holds, so that none of the examples would match."""
    text = write(tmp_path, GOOD.replace("patterns:", 'patterns: ["\\bdrop"] #', 1))
    assert "T-1: a pattern holds a backspace: write patterns in single quotes" in problems(text)


def test_all_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    """Two broken files and a missing one are three reports; ids are unique over all files."""
    first = write(tmp_path, GOOD.replace("0.9", "7"), "a.yaml")
    second = write(tmp_path, "family: [", "b.yaml")
    text = problems(first, second, tmp_path / "none.yaml")
    assert "a.yaml: T-1" in text
    assert "b.yaml: line 2, " in text
    assert "none.yaml: No such file" in text
    both = f"T-1: this id is used more than once, in {tmp_path / 'c.yaml'} and {tmp_path / 'd.yaml'}"
    assert both in problems(write(tmp_path, GOOD, "c.yaml"), write(tmp_path, GOOD, "d.yaml"))


def test_a_folder_without_policies_is_a_problem(tmp_path: Path) -> None:
    """A wrong path is an error, not an empty policy."""
    assert "no *.yaml" in problems(tmp_path)


def test_the_shipped_policies_load_and_cover_all_labels() -> None:
    """No paths = what comes with the program."""
    shipped = policy.load()
    assert {rule.label for rule in shipped.rules} == set(Label)
    assert sum(len(rule.patterns) for rule in shipped.rules) > 300


def test_every_title_is_english_and_unique() -> None:
    """A rule of one other language has its title in that language as well, and its name in the English one."""
    rules = policy.load().rules
    assert [rule.id for rule in rules if not rule.title.isascii()] == []
    assert len({rule.title for rule in rules}) == len(rules)
    native = [rule for rule in rules if rule.title_native]
    assert len(native) == 174
    assert all(rule.title != rule.title_native and ", in " in rule.title for rule in native)


def test_the_word_shipped_stands_for_the_shipped_policies(tmp_path: Path) -> None:
    """`shipped` adds the shipped policies to custom ones."""
    (tmp_path / "own.yaml").write_text(
        "family: jailbreak\nrules: [{id: OWN-1, title: Own, score: 0.9, languages: [en], patterns: [pineapple], "
        "match: [pineapple], no_match: [apple]}]",
        "utf-8",
    )
    combined = policy.load([Path("shipped"), tmp_path])
    assert {rule.id for rule in policy.load().rules} | {"OWN-1"} == {rule.id for rule in combined.rules}
    assert combined.shipped == {rule.id for rule in combined.rules} - {"OWN-1"}


TOPIC = """
family: jailbreak
status: block
rules:
  - id: T-2
    title: Only questions about billing
    score: 0.8
    languages: [en]
    similar_to: [Why was I charged twice?]
    topic: allowed
    match: [Write a poem about the moon.]
    no_match: [The invoice is wrong.]
"""


def test_a_topic_is_a_hint_about_users_turns_unless_the_rule_says_otherwise(tmp_path: Path) -> None:
    """The status of the file does not make it block, only its own does."""
    (rule,) = policy.load([write(tmp_path, TOPIC)]).rules
    assert (rule.status, rule.channels) == ("hint", (Channel.DIRECT,))
    (rule,) = policy.load([write(tmp_path, TOPIC.replace("score:", "status: block\n    score:"))]).rules
    assert rule.status == "block"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("topic: allowed", "topic: only", "t.yaml: T-2: topic: must be 'allowed' or 'denied'"),
        (
            "topic: allowed",
            "topic: allowed\n    channels: [indirect]",
            "T-2: a rule with topic reads only users'",
        ),
    ],
)
def test_a_wrong_topic_says_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Another word, and a rule about what no user says."""
    assert said in problems(write(tmp_path, TOPIC.replace(old, new)))
