"""Forms and uploads in, segments out: text fields of a form, and files made of prompts (JSON lines).

A file is text if its bytes are, whatever its name and type say; then it is read like a document.
Everything else is `media`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sidecar.errors import BodyError
from sidecar.extraction import embedded
from sidecar.extraction.extraction import Extraction, Unscannable, extract
from sidecar.extraction.field_table import ENUMS, looks_like_id
from sidecar.extraction.json_body import JsonValue, parse
from sidecar.extraction.multipart import Part, is_form, parse_form
from sidecar.extraction.routes import classify
from sidecar.types import Segment, Source

__all__ = ["Part", "extract_form", "extract_upload", "is_form", "parse_form", "scan_jsonl"]

MOST_LINES = 50_000
MOST_SEGMENTS = 10_000
_ID_FIELDS = frozenset({"model", "n", "purpose", "seconds", "size", "stream", "temperature", "voice"})
_JSONL_PURPOSES = frozenset({"batch", "evals", "fine-tune"})
_FIELD_NAME = re.compile(r"[a-z_]{1,64}(?:\[\])?")


def extract_form(parts: Sequence[Part], *, depth: int) -> Extraction:
    """Every text of a form: fields, file names, and files that are text.

    A part that says it is JSON (the session of a realtime call) is read as strictly as a body.
    Raises `BodyError` (malformed) for a text field that is not UTF-8.
    """
    merged = _merged(_part(part, depth) for part in parts)
    models = [part for part in parts if part.name == "model"]
    if len(models) > 1 or not all(part.is_text for part in models):
        raise BodyError("malformed", "The form must name its model once, as text.")  # servers would take either
    fields = {part.name: _utf8(part) for part in parts if part.is_text}
    said = [segment for segment in merged.segments if segment.source is Source.USER]
    joined = (replace(said[0], text="\n".join(segment.text for segment in said)),) if len(said) > 1 else ()
    return replace(merged, model=fields.get("model"), stream=fields.get("stream") == "true", joined=joined)


def extract_upload(parts: Sequence[Part], *, depth: int) -> Extraction:
    """Every text of an upload to `/files`: each line of JSON lines, the text of a text file, else `media`.

    A file with a purpose that asks for JSON lines must be that. Raises `BodyError` (malformed, oversize).
    """
    fields = {part.name: _utf8(part) for part in parts if part.is_text}
    lines = fields.get("purpose") in _JSONL_PURPOSES
    files = [part for part in parts if not part.is_text and (lines or (part.filename or "").endswith(".jsonl"))]
    rest = [replace(part, data=b"") if part in files else part for part in parts]
    return _merged(
        [extract_form(rest, depth=depth), *(line for part in files for line in scan_jsonl(part.data, depth=depth))]
    )


def scan_jsonl(raw: bytes, *, depth: int) -> Iterator[Extraction]:
    """The texts of each line: of a batch (`{custom_id, method, url, body}`), or of training data.

    Raises `BodyError` (malformed, oversize) that names the line.
    """
    for number, line in enumerate(raw.split(b"\n")):
        if number >= MOST_LINES:
            raise BodyError("oversize", f"The file has more than {MOST_LINES} lines.", status=413)
        if line.strip(b" \t\r"):
            yield _line(line, number, depth)


def _line(line: bytes, number: int, depth: int) -> Extraction:
    try:
        found = _request(parse(line, depth=depth))
    except BodyError as error:
        said = f"Line {number + 1} of the file: {error.detail}"
        raise BodyError(error.kind, said, status=error.status, param=f"file.{number}") from None
    return _below(found, f"file.{number}")


def _request(document: JsonValue) -> Extraction:
    """A batch line is read as the request that it stands for; any other as a chat."""
    if not isinstance(document, dict):
        raise BodyError("malformed", "It must be a JSON object.")
    url, body = document.get("url"), document.get("body")
    if not isinstance(url, str) or not isinstance(body, dict):
        return extract(document, "/chat/completions", "openai")
    route = classify("POST", url, prefixes=("/v1", ""))
    frame = {name: value for name, value in document.items() if name != "body"}
    inner = _below(extract(body, route.operation, route.dialect), "body")
    return replace(_merged([extract(frame, route.operation, route.dialect), inner]), model=inner.model)


def _part(part: Part, depth: int) -> Extraction:
    shown = part.name if _FIELD_NAME.fullmatch(part.name) else "*"
    names = [part.name if shown == "*" else "", part.filename or ""]
    found = Extraction(segments=tuple(Segment(name, Source.USER, shown) for name in names if name))
    if part.is_text:
        return _merged([found, _field(part, shown)])
    if part.filename is None and "json" in (part.content_type or ""):
        return _merged(
            [found, extract({part.name: parse(part.data, depth=depth)}, "/realtime/client_secrets", "openai")]
        )
    return _merged([found, _file(part, shown)])


def _field(part: Part, path: str) -> Extraction:
    text = _utf8(part)
    if not text or text in ENUMS.get(part.name, ()) or (part.name in _ID_FIELDS and looks_like_id(text)):
        return Extraction()
    inner = embedded.json_value(text)
    unfolded = extract({part.name: inner}, "", "openai").segments if inner is not None else ()
    return Extraction(segments=(Segment(text, Source.USER, path), *unfolded))


def _file(part: Part, path: str) -> Extraction:
    if not part.data:
        return Extraction()
    text = embedded.text_of(part.data)
    if text is None:
        return Extraction(unscannable=(Unscannable("media", path),))
    return Extraction(segments=(Segment(text, Source.UNTRUSTED, path),))


def _utf8(part: Part) -> str:
    try:
        return part.data.decode("utf-8")
    except UnicodeDecodeError:
        raise BodyError("malformed", "A text field of the form is not UTF-8.") from None


def _merged(found: Iterable[Extraction]) -> Extraction:
    """One extraction of several. Raises `BodyError` (oversize) when there are too many texts."""
    segments: list[Segment] = []
    joined: list[Segment] = []
    unscannable: list[Unscannable] = []
    prompts: dict[str, None] = {}
    for each in found:
        segments += each.segments
        joined += each.joined
        unscannable += each.unscannable
        prompts |= {each.system_prompt: None} if each.system_prompt else {}
        if len(segments) + len(joined) > MOST_SEGMENTS:
            raise BodyError("oversize", f"The body holds more than {MOST_SEGMENTS} texts.", status=413)
    return Extraction(
        segments=tuple(segments),
        system_prompt="\n\n".join(prompts) or None,
        unscannable=tuple(unscannable),
        joined=tuple(joined),
    )


def _below(found: Extraction, place: str) -> Extraction:
    """The same with every path below `place`."""
    return replace(
        found,
        segments=tuple(replace(segment, path=f"{place}.{segment.path}") for segment in found.segments),
        joined=tuple(replace(segment, path=f"{place}.{segment.path}") for segment in found.joined),
        unscannable=tuple(replace(part, path=f"{place}.{part.path}") for part in found.unscannable),
    )
