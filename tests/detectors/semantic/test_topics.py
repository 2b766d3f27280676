"""Twin of sidecar/detectors/semantic/topics.py: decisions on the shipped model, with an operator's rules."""

from __future__ import annotations

import pytest
import tiny_model
from tiny_model import Rule, TinyEncoder

from sidecar.detectors.semantic.artifact import SHIPPED, ModelArtifact
from sidecar.detectors.semantic.encoder import OnnxEncoder
from sidecar.detectors.semantic.topics import MAX_WINDOWS, Topics
from sidecar.types import Channel, Segment, Source

BILLING = (
    "Why was I charged twice this month?",
    "Please send me a copy of my last invoice.",
    "How can I change the credit card on my account?",
    "My payment was declined, what should I do now?",
)
MEDICINE = (
    "Which tablets help against a headache?",
    "I have had a fever since yesterday, should I see a doctor?",
    "Is this rash on my arm dangerous?",
)
ALLOWED = Rule("T-1", BILLING, status="hint", channels=(Channel.DIRECT,), topic="allowed")
DENIED = Rule("T-2", MEDICINE, status="hint", channels=(Channel.DIRECT,), topic="denied")
INVOICE, FEVER, POEM = "The invoice of May was charged to the wrong card.", MEDICINE[1], "Write a poem about the moon."


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    """The shipped model."""
    return OnnxEncoder(ModelArtifact.read(SHIPPED["onnx"]), 1)


def topics_of(encoder: OnnxEncoder, *rules: Rule) -> Topics:
    """These rules with the cosines of the shipped model."""
    return Topics(rules, encoder, ModelArtifact.read(SHIPPED["onnx"]).manifest)


def met(topics: Topics, encoder: OnnxEncoder, *windows: str) -> list[str]:
    """The rules that a turn of these windows meets."""
    features = [encoder.features([next(iter(encoder.windows(text))).ids], [0])[0] for text in windows]
    return [hit.rule.id for hit in topics.hits(features)]


def test_an_allowed_topic_is_met_by_anything_else(encoder: OnnxEncoder) -> None:
    """A text about the topic does not meet it, one about something else does."""
    topics = topics_of(encoder, ALLOWED)
    assert met(topics, encoder, INVOICE) == []
    assert met(topics, encoder, POEM) == ["T-1"]


def test_a_long_turn_is_off_topic_only_as_a_whole(encoder: OnnxEncoder) -> None:
    """One window about the topic is enough."""
    assert met(topics_of(encoder, ALLOWED), encoder, POEM, INVOICE) == []


def test_a_denied_topic_is_met_by_its_own_questions_anywhere(encoder: OnnxEncoder) -> None:
    """One window is enough; other questions do not meet it."""
    topics = topics_of(encoder, DENIED)
    assert met(topics, encoder, "I have a bad headache, which tablets can I take?") == ["T-2"]
    assert met(topics, encoder, INVOICE, FEVER) == ["T-2"]
    assert met(topics, encoder, INVOICE) == met(topics, encoder, POEM) == []


def test_what_is_nearer_to_an_allowed_example_is_not_denied(encoder: OnnxEncoder) -> None:
    """The same sentence as an allowed example."""
    assert met(topics_of(encoder, DENIED, Rule("T-3", (FEVER,), topic="allowed")), encoder, FEVER) == []


def test_a_follow_up_is_never_off_topic(encoder: OnnxEncoder) -> None:
    """Its topic is that of the turns before."""
    topics = topics_of(encoder, ALLOWED)
    assert met(topics, encoder, "Could you please explain that once more in other words?") == []


def test_the_reason_names_the_nearest_example(encoder: OnnxEncoder) -> None:
    """By its number, with the cosine and the limit."""
    features = [encoder.features([next(iter(encoder.windows(FEVER))).ids], [0])[0]]
    (hit,) = topics_of(encoder, DENIED).hits(features)
    assert hit.evidence == "cosine 1.00 to line 2 of similar_to, the nearest; matches from 0.45"


@pytest.mark.parametrize(
    ("segment", "windows"),
    [
        (Segment(POEM), MAX_WINDOWS),
        (Segment("Und was ist im nächsten Monat?"), MAX_WINDOWS),
        (Segment("我想知道为什么这个月被收费两次"), MAX_WINDOWS),
        (Segment("And in March?"), 0),
        (Segment("yes"), 0),
        (Segment("a1b2c3d4-0000-1111-2222-333344445555"), 0),
        (Segment(POEM, source=Source.UNTRUSTED), 0),
        (Segment(POEM, source=Source.APPLICATION), 0),
        (Segment(POEM, source=Source.MODEL), 0),
        (Segment(POEM, joined=True), 0),
        (Segment(POEM, pieces=((0, "metadata.a"),)), 0),
    ],
)
def test_only_turns_of_users_with_enough_words_are_compared(segment: Segment, windows: int) -> None:
    """Not the application, the model, tools, short turns, identifiers, joined turns and packed fields."""
    assert Topics((ALLOWED,), TinyEncoder(), tiny_model.manifest()).windows_of(segment) == windows


def test_without_topic_rules_nothing_is_embedded() -> None:
    """Neither at the start nor for a turn; retired rules and `similar_to` alone are no topics."""
    encoder = TinyEncoder()
    rules = Rule("T-4", ("calm",)), Rule("T-5", ("calm",), status="retired", topic="denied")
    topics = Topics(rules, encoder, tiny_model.manifest())
    assert (topics.windows_of(Segment(POEM)), topics.hits([]), encoder.batches) == (0, [], [])
