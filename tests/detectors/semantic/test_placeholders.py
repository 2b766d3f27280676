"""The shipped model reads placeholders of `pii: redact` as it reads the values: they are not taken for an attack."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inline_proxy import personal

from sidecar import config
from sidecar.detectors.semantic.layer import SemanticLayer
from sidecar.proxy.redaction import Redactor
from sidecar.types import ScanRequest, Segment

RISE = 0.05
"""How much higher than that of the plain text the score of a redacted one may be."""
SENTENCES = (
    "Write a letter to jon.frey@seepost.ch that the ferry is late.",
    "Translate into German: please answer to mia.keller@bergwind.de by Friday.",
    "My number is +49 30 23125042, remind me to call the dentist.",
    "Put +41 44 668 18 00 and +44 20 7946 3018 into a table of contacts.",
    "The card 4111 1111 1111 1111 was charged twice, draft a complaint.",
    "Is DE89 3704 0044 0532 0130 00 a valid account number?",
    "Why does 81.2.69.142 appear so often in the log of our web server?",
    "The printer with the address 3C:22:FB:9A:10:7E loses its connection every night.",
    "I was born on 12 March 1984; how old am I in weeks?",
    "My date of birth: 1984-03-12. Which school year was that?",
    "Our old key AKIAIOSFODNN7QWERTZU is revoked, how do I make a new one?",
    "Send the invoice to 14 Harbour Street and a copy to anna@kestrel-ferry.com.",
    "Summarise: Anna (anna@kestrel-ferry.com, +41 44 668 18 00) wants a refund for two tickets.",
)


@pytest.fixture
async def model() -> AsyncIterator[SemanticLayer]:
    """The layer as shipped."""
    layer = SemanticLayer.load(config.SemanticLayer(), ())
    yield layer
    await layer.close()


async def test_placeholders_raise_no_score(model: SemanticLayer) -> None:
    """Of each sentence, plain against redacted; and a redacted one is far from a block."""
    redactor, rises, replaced = Redactor(personal()), {}, 0
    for sentence in SENTENCES:
        document: dict[str, object] = {"prompt": sentence}
        replaced += bool(await redactor.redact(document))  # type: ignore[arg-type]
        texts = (sentence, str(document["prompt"]))
        plain, redacted = [(await model.scan(ScanRequest((Segment(text),)), ())).score or 0.0 for text in texts]
        if redacted > plain + RISE or redacted >= config.Scan().threshold:
            rises[texts[1]] = (plain, redacted)
    assert rises == {}
    assert replaced >= len(SENTENCES) - 2
