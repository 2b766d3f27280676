"""Extracts segments from forms and uploads: text fields, and files of prompts (JSON lines).

Whether a file is text is decided by its bytes, not by its name or type; a text file is read as a document.
Any other file is `media`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sidecar.errors import BodyError
from sidecar.extraction import embedded
from sidecar.extraction.extraction import Extraction, Unscannable, extract
from sidecar.extraction.field_table import ENUMS, holds_words, looks_like_id
from sidecar.extraction.json_body import JsonValue, parse
from sidecar.extraction.multipart import Part, is_form, parse_form
from sidecar.extraction.routes import classify
from sidecar.types import Segment, Source

__all__ = ["Part", "extract_form", "extract_upload", "is_form", "parse_form", "scan_jsonl"]

MAX_LINES = 50_000
MAX_SEGMENTS = 10_000
_ID_FIELDS = frozenset({"model", "n", "purpose", "seconds", "size", "stream", "temperature", "voice"})
_JSONL_PURPOSES = frozenset({"batch", "evals", "fine-tune"})
_FIELD_NAME = re.compile(r"[a-z_]{1,64}(?:\[\])?")


def extract_form(parts: Sequence[Part], *, depth: int) -> Extraction:
    """Extract every text of a form: fields, file names, and text files.

    A part with a JSON type (the session of a realtime call) is parsed as strictly as a body.
    Raises `BodyError` (malformed) for a text field that is not UTF-8.
    """
    merged = _merge(_part(part, depth) for part in parts)
    models = [part for part in parts if part.name == "model"]
    if len(models) > 1 or not all(part.is_text for part in models):
        raise BodyError("malformed", "The form must name its model once, as text.")  # servers differ in which they use
    fields = {part.name: _utf8(part) for part in parts if part.is_text}
    user_segments = [segment for segment in merged.segments if segment.source is Source.USER]
    text = "\n".join(segment.text for segment in user_segments)
    parts_said = tuple(segment.text for segment in user_segments)
    whole = [
        replace(one, text=text, joined=True, rules_only=False, pieces=(), parts=parts_said) for one in user_segments[:1]
    ]
    joined = tuple(whole) if len(user_segments) > 1 else ()
    return replace(merged, model=fields.get("model"), stream=fields.get("stream") == "true", joined=joined)


def extract_upload(parts: Sequence[Part], *, depth: int) -> Extraction:
    """Extract every text of an upload to `/files`: each line of JSON lines, or the text of a text file.

    Any other file is `media`. A file whose purpose requires JSON lines must hold them. Raises `BodyError` (malformed,
    oversize).
    """
    fields = {part.name: _utf8(part) for part in parts if part.is_text}
    is_jsonl = fields.get("purpose") in _JSONL_PURPOSES
    files = [part for part in parts if not part.is_text and (is_jsonl or (part.filename or "").endswith(".jsonl"))]
    form = extract_form([replace(part, data=b"") if part in files else part for part in parts], depth=depth)
    return _merge([form, *(line for part in files for line in scan_jsonl(part.data, depth=depth))])


def scan_jsonl(raw: bytes, *, depth: int) -> Iterator[Extraction]:
    """Extract the texts of each line: a batch request (`{custom_id, method, url, body}`) or training data.

    Raises `BodyError` (malformed, oversize) that names the line.
    """
    for number, line in enumerate(raw.split(b"\n")):
        if number >= MAX_LINES:
            raise BodyError("oversize", f"The file has more than {MAX_LINES} lines.", status=413)
        if line.strip(b" \t\r"):
            yield _line(line, number, depth)


def _line(line: bytes, number: int, depth: int) -> Extraction:
    try:
        extraction = _request(parse(line, depth=depth))
    except BodyError as error:
        detail = f"Line {number + 1} of the file: {error.detail}"
        raise BodyError(error.kind, detail, status=error.status, param=f"file.{number}") from None
    return _prefix_paths(extraction, f"file.{number}")


def _request(document: JsonValue) -> Extraction:
    """Read a batch line as the request it describes, any other line as a chat."""
    if not isinstance(document, dict):
        raise BodyError("malformed", "It must be a JSON object.")
    url, body = document.get("url"), document.get("body")
    if not isinstance(url, str) or not isinstance(body, dict):
        return extract(document, "/chat/completions", "openai")
    route = classify("POST", url, prefixes=("/v1", ""))
    frame = {name: value for name, value in document.items() if name != "body"}
    inner = _prefix_paths(extract(body, route.operation, route.dialect), "body")
    return replace(_merge([extract(frame, route.operation, route.dialect), inner]), model=inner.model)


def _part(part: Part, depth: int) -> Extraction:
    path = part.name if _FIELD_NAME.fullmatch(part.name) else "*"
    names = [part.name if path == "*" else "", part.filename or ""]
    names_only = Extraction(segments=tuple(Segment(name, Source.USER, path) for name in names if name))
    if part.is_text:
        return _merge([names_only, _field(part, path)])
    if part.filename is None and "json" in (part.content_type or ""):
        session = {part.name: parse(part.data, depth=depth)}
        return _merge([names_only, extract(session, "/realtime/client_secrets", "openai")])
    return _merge([names_only, _file(part, path)])


def _field(part: Part, path: str) -> Extraction:
    text = _utf8(part)
    if not text or text in ENUMS.get(part.name, ()) or _is_id(part.name, text):
        return Extraction()
    inner = embedded.json_value(text)
    unfolded = extract({part.name: inner}, "", "openai").segments if inner is not None else ()
    return Extraction(segments=(Segment(text, Source.USER, path), *unfolded))


def _is_id(name: str, text: str) -> bool:
    return name in _ID_FIELDS and looks_like_id(text) and (name == "model" or not holds_words(text))


def _file(part: Part, path: str) -> Extraction:
    if not part.data:
        return Extraction()
    text, file = embedded.text_of(part.data, part.content_type or ""), embedded.file_of(part.data)
    readable = embedded.passages(part.data) if text is None else text
    return Extraction(
        segments=(Segment(readable, Source.UNTRUSTED, path),) if readable else (),
        unscannable=(Unscannable("media", path, data=file),) if text is None or file else (),
    )


def _utf8(part: Part) -> str:
    try:
        return part.data.decode("utf-8")
    except UnicodeDecodeError:
        raise BodyError("malformed", "A text field of the form is not UTF-8.") from None


def _merge(extractions: Iterable[Extraction]) -> Extraction:
    """Merge extractions into one. Raises `BodyError` (oversize) if there are too many texts."""
    segments: list[Segment] = []
    joined: list[Segment] = []
    unscannable: list[Unscannable] = []
    prompts: dict[str, None] = {}
    for extraction in extractions:
        segments += extraction.segments
        joined += extraction.joined
        unscannable += extraction.unscannable
        prompts |= {extraction.system_prompt: None} if extraction.system_prompt else {}
        if len(segments) + len(joined) > MAX_SEGMENTS:
            raise BodyError("oversize", f"The body holds more than {MAX_SEGMENTS} texts.", status=413)
    return Extraction(
        segments=tuple(segments),
        system_prompt="\n\n".join(prompts) or None,
        unscannable=tuple(unscannable),
        joined=tuple(joined),
    )


def _prefix_paths(extraction: Extraction, parent: str) -> Extraction:
    """Prefix every path with `parent`."""
    return replace(
        extraction,
        segments=tuple(_prefixed(segment, parent) for segment in extraction.segments),
        joined=tuple(replace(segment, path=f"{parent}.{segment.path}") for segment in extraction.joined),
        unscannable=tuple(replace(part, path=f"{parent}.{part.path}") for part in extraction.unscannable),
    )


def _prefixed(segment: Segment, parent: str) -> Segment:
    repeated = tuple(f"{parent}.{path}" for path in segment.repeated)
    pieces = tuple((start, f"{parent}.{path}") for start, path in segment.pieces)
    return replace(segment, path=f"{parent}.{segment.path}", pieces=pieces, repeated=repeated)
