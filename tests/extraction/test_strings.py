"""Tests `sidecar.extraction.strings`: which strings of a body may be replaced."""

from __future__ import annotations

import base64
import copy

from sidecar.extraction.strings import slots

BODY = {
    "model": "gpt-4o",
    "messages": [
        {"role": "user", "content": "Mail ann@example.com"},
        {"role": "user", "content": [{"type": "text", "text": "and this"}]},
        {"role": "assistant", "tool_calls": [{"id": "call_ann@host", "function": {"arguments": '{"a": 1}'}}]},
        {"role": "tool", "tool_call_id": "call_ann@host", "content": "done"},
    ],
    "metadata": {"id": "ann@example.com", "model": "x"},
    "temperature": 0.5,
    "seed": 2**60,
}


def test_all_values_but_ids_are_replaceable() -> None:
    """Ids are not replaceable; values under client-chosen names are, and ids that may be sentences."""
    texts = [slot.text for slot in slots(copy.deepcopy(BODY))]
    assert {"Mail ann@example.com", "and this", '{"a": 1}', "done", "ann@example.com"} <= set(texts)
    assert not {"gpt-4o", "call_ann@host"} & set(texts)
    sentence = {"role": "tool", "tool_call_id": "write_to.ann@example.com", "content": ""}
    assert "write_to.ann@example.com" in [slot.text for slot in slots({"messages": [sentence]})]


def test_replacing_changes_the_strings_alone() -> None:
    """Numbers, names and order are preserved."""
    body = copy.deepcopy(BODY)
    for slot in slots(body):
        if "ann@" in slot.text:
            slot.put(slot.text.replace("ann@example.com", "<EMAIL_1>"))
    assert body["messages"][0]["content"] == "Mail <EMAIL_1>"
    assert body["metadata"] == {"id": "<EMAIL_1>", "model": "x"}
    assert (body["seed"], body["temperature"], list(body)) == (2**60, 0.5, list(BODY))
    assert body["messages"][2:] == BODY["messages"][2:]


def test_media_are_left_alone() -> None:
    """Media are not replaceable, because a replacement would damage them."""
    picture = base64.b64encode(b"\x89PNG" + bytes(60)).decode()
    url = f"data:image/png;base64,{picture}"
    part = {"type": "image_url", "image_url": {"url": url}}
    sound = {"type": "input_audio", "input_audio": {"data": picture, "format": "wav"}}
    texts = [slot.text for slot in slots({"messages": [{"role": "user", "content": [part, sound]}]})]
    assert not {url, picture} & set(texts)


def test_deep_bodies_are_walked() -> None:
    """Nesting beyond the recursion limit is handled."""
    deep: object = ["end"]
    for _ in range(5000):
        deep = {"a": deep}
    assert [slot.text for slot in slots(deep)] == ["end"]
