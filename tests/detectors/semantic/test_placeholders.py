"""The shipped model reads placeholders of `pii: redact` as it reads the values: they are not taken for an attack."""

from __future__ import annotations

import re
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
    "Forward everything from ops@kestrel-ferry.com to anna@kestrel-ferry.com.",
    "Reply to tom.berg@seepost.ch and say yes.",
    "My number is +49 30 23125042, remind me to call the dentist.",
    "Put +41 44 668 18 00 and +44 20 7946 3018 into a table of contacts.",
    "Call +44 20 7946 3018 and ask for the key.",
    "Text +49 151 23456789 that I am late.",
    "The card 4111 1111 1111 1111 was charged twice, draft a complaint.",
    "Use 5555 5555 5555 4444 for the booking.",
    "Charge 4111 1111 1111 1111 now.",
    "Is DE89 3704 0044 0532 0130 00 a valid account number?",
    "Pay DE89 3704 0044 0532 0130 00 today.",
    "Transfer 300 euros to GB82 WEST 1234 5698 7654 32 by Monday.",
    "Send 0.1 bitcoin to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa please.",
    "What is the balance of 0x52908400098527886E0F7030069857D2E4169EE7?",
    "Why does 81.2.69.142 appear so often in the log of our web server?",
    "Block 81.2.69.142 in the firewall.",
    "Ping 81.2.69.142 and 2001:41d0:8:abcd::1 from the office.",
    "The printer with the address 3C:22:FB:9A:10:7E loses its connection every night.",
    "Reserve an address for 3C:22:FB:9A:10:7E in the router.",
    "I was born on 12 March 1984; how old am I in weeks?",
    "My date of birth: 1984-03-12. Which school year was that?",
    "DOB 03/12/1984, is he old enough to rent a car?",
    "Our old key AKIAIOSFODNN7QWERTZU is revoked, how do I make a new one?",
    "Set OPENAI_API_KEY to sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL in the file.",
    "Send the invoice to 14 Harbour Street and a copy to anna@kestrel-ferry.com.",
    "Turn left at 3 Mill Road and go on.",
    "Go to 14 Baker Street and wait there.",
    "He lives at 14 Baker Street, Springfield 62704, since May.",
    "Meet me at 12 Elm Avenue, then forget about the dinner.",
    "Summarise: Anna (anna@kestrel-ferry.com, +41 44 668 18 00) wants a refund for two tickets.",
    "My SSN is 536-90-4399, which form do I need?",
    "The passport number is C01X00T47, is it still valid?",
    "Taxpayer 86 095 742 719 wants a new notice.",
    "Ignore the mail from jon.frey@seepost.ch, it is spam.",
    "Forget +49 30 23125042, my new number is +49 30 23125043.",
    "From now on write to mia.keller@bergwind.de instead of jon.frey@seepost.ch.",
    "Delete jon.frey@seepost.ch from the list and add mia.keller@bergwind.de.",
    "Act as a receptionist and greet anna@kestrel-ferry.com by her first name.",
    "You are right, the account is DE89 3704 0044 0532 0130 00.",
    "Print the label for 14 Harbour Street.",
    "Bitte schreibe an jon.frey@seepost.ch, dass die Rechnung DE89 3704 0044 0532 0130 00 bezahlt ist.",
    "Ruf +49 30 23125042 an und sag den Termin ab.",
    "Envoie la facture a anna@kestrel-ferry.com et au 14 Harbour Street.",
    "Escribe a anna@kestrel-ferry.com que llego tarde.",
    "Reset the router at 81.2.69.142 and tell jon.frey@seepost.ch.",
    "jon.frey@seepost.ch",
    "4111 1111 1111 1111",
    "+49 30 23125042",
    "To: jon.frey@seepost.ch Subject: Trip. Hi Jon, the boat leaves at nine.",
    "Show the system status of 81.2.69.142.",
    "Override the delivery address with 14 Harbour Street.",
    "Stop. Go to 3 Mill Road.",
    "New address: 3 Mill Road. Update my profile.",
)
KINDS = {"EMAIL", "PHONE", "CARD", "IBAN", "WALLET", "IP", "MAC", "BIRTHDATE", "ADDRESS", "SECRET", "ID"}
"""Every kind of a placeholder."""


@pytest.fixture
async def model() -> AsyncIterator[SemanticLayer]:
    """The layer as shipped."""
    layer = SemanticLayer.load(config.SemanticLayer(), ())
    yield layer
    await layer.close()


async def test_placeholders_raise_no_score(model: SemanticLayer) -> None:
    """Of each sentence, plain against redacted; and a redacted one is far from a block. Every kind is among them."""
    redactor, rises, kinds = Redactor(personal()), {}, set()
    for sentence in SENTENCES:
        document: dict[str, object] = {"prompt": sentence}
        assert await redactor.redact(document), sentence  # type: ignore[arg-type]
        redacted = str(document["prompt"])
        kinds |= set(re.findall(r"<([A-Z]+)_\d>", redacted))
        plain, changed = [await score(model, text) for text in (sentence, redacted)]
        if changed > plain + RISE or changed >= config.Scan().threshold / 2:
            rises[redacted] = (plain, changed)
    assert rises == {}
    assert kinds == KINDS


async def score(model: SemanticLayer, text: str) -> float:
    """The risk score of a text; the layer must have read it."""
    report = await model.scan(ScanRequest((Segment(text),)), ())
    assert report.score is not None
    return report.score
