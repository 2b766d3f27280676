"""Atoms: the values in a text or an argument that say whom or what an action reaches, each in a comparable form.

Blanks in an IBAN, the punctuation of a phone number and the case of an address do not count. Prose holds no atoms
beside those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from urllib.parse import urlsplit

from stdnum import numdb


class AtomKind(StrEnum):
    """What an atom is."""

    EMAIL = "email"
    URL = "url"
    HOST = "host"
    ACCOUNT = "account"
    PHONE = "phone"
    PATH = "path"
    COMMAND = "command"
    IDENTIFIER = "identifier"


@dataclass(frozen=True, slots=True)
class Atom:
    """A value. `key` is its comparable form; `start` is its place in the text that it stands in."""

    kind: AtomKind
    key: str
    text: str
    start: int = 0


_EMAIL = re.compile(r"(?<![\w.+'-])[\w.+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_URL = re.compile(r"(?i)\b(?:https?|ftps?|ssh|git|s3|gs|wss?|file|data|smb|ldap)://[^\s<>\"'`\\|{}^\[\]]+")
LINK = re.compile(r"(?i)https?://[^\s<>\"'`\\|{}^\[\]]*")
"""A link in the text of an answer with the punctuation that follows it, or only the beginning of one."""
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ \u00a0-]?[A-Z0-9]{1,4}){3,9}")
_WALLET = re.compile(r"\b(?:0x[0-9a-fA-F]{40}|bc1[02-9ac-hj-np-z]{20,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34})\b")
_NUMBER = re.compile(r"(?<![\w.,])\+?\(?\d[\d \u00a0().,/'-]{0,40}\d(?![\w])|(?<![\w.,])\d(?![\w])")
_HOST = re.compile(r"(?i)(?<![\w@./-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,18}(?![\w@-])(?!\.[a-z])")
_PATH = re.compile(r"(?<![\w/:.])(?:~|\.{1,2})?/[\w.@+-][\w.@+/-]*|\b[A-Za-z]:\\[\w.\\ -]+")
_HANDLE = re.compile(r"(?<![\w@/])[@#][\w][\w.-]{1,40}\w")
_IDENTIFIER = re.compile(
    r"(?<![\w/])(?=[\w.:#-]{0,63}\d)[A-Za-z][\w.:#-]{2,63}\b|(?<![\w/])(?=[\w-]{0,63}[_-])[A-Za-z][\w-]{3,63}\b"
)
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_SUFFIXES = """
    pdf txt md csv tsv xlsx xls docx doc pptx ppt json jsonl yaml yml toml ini cfg conf log py js ts tsx jsx go
    rs java kt rb php c h cpp hpp cs sh bash ps1 sql html htm xml css png jpg jpeg gif svg webp zip gz tar tgz
    rar bak tmp lock env key pem crt eml msg ics vcf mp3 mp4 mov wav db sqlite parquet ipynb tf out
"""
FILE_SUFFIXES = frozenset(_SUFFIXES.split())
"""Last parts of names of files, which look like hosts."""
_TRAILING = ".,;:!?)]}>'\"*_"
MIN_ACCOUNT_DIGITS, MIN_PHONE_DIGITS, PHONE_TAIL, MIN_IBAN, MIN_DIGITS = 6, 7, 8, 14, 5


def text_atoms(text: str) -> list[Atom]:
    """The atoms of a text, in order of kind. A URL is one atom, and its host another."""
    return list(dict.fromkeys(_atoms(text)))


def _atoms(text: str) -> Iterator[Atom]:
    for hit in _URL.finditer(text):
        yield from _url_atoms(hit.group().rstrip(_TRAILING), hit.start())
    if "@" in text:
        for hit in _EMAIL.finditer(text):
            value = hit.group().strip(".'-")
            yield Atom(AtomKind.EMAIL, value.casefold(), value, hit.start())
    if "." in text:
        yield from _hosts(text)
    yield from _numbers(text)
    for kind, pattern in ((AtomKind.PATH, _PATH), (AtomKind.IDENTIFIER, _HANDLE), (AtomKind.IDENTIFIER, _IDENTIFIER)):
        for hit in pattern.finditer(text):
            value = hit.group().rstrip(_TRAILING)
            yield Atom(kind, folded(value.lstrip("@#")), value, hit.start())


def _url_atoms(url: str, start: int) -> Iterator[Atom]:
    yield Atom(AtomKind.URL, url_key(url), url, start)
    if host := url_host(url):
        yield Atom(AtomKind.HOST, host, host, start)


def links(text: str) -> list[str]:
    """The links in a text, without the punctuation that follows them."""
    return list(dict.fromkeys(hit.rstrip(_TRAILING) for hit in LINK.findall(text)))


def url_key(url: str) -> str:
    """A URL without scheme, `www.` and a last slash; its host in lower case."""
    rest = url.partition("://")[2]
    host, slash, path = rest.partition("/")
    return (host.lower().removeprefix("www.") + slash + path).rstrip("/")


def url_host(url: str) -> str:
    """The host of a URL, or an empty text."""
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _hosts(text: str) -> Iterator[Atom]:
    for hit in _HOST.finditer(text):
        name = hit.group().lower()
        if name.rpartition(".")[2] in FILE_SUFFIXES:
            yield Atom(AtomKind.IDENTIFIER, name, hit.group(), hit.start())
        else:
            yield Atom(AtomKind.HOST, name.removeprefix("www."), hit.group(), hit.start())
    for hit in _IPV4.finditer(text):
        yield Atom(AtomKind.HOST, hit.group(), hit.group(), hit.start())


def _numbers(text: str) -> Iterator[Atom]:
    covered = bytearray(len(text) + 1)
    for pattern in (_IBAN, _WALLET):
        for hit in pattern.finditer(text):
            key = re.sub(r"[\W_]", "", hit.group())
            if pattern is _IBAN:
                key = key[: _iban_length(key[:2])]
            if len(key) >= MIN_IBAN and sum(map(str.isdigit, key)) >= MIN_DIGITS:
                covered[hit.start() : hit.end()] = b"\1" * len(hit.group())
                yield Atom(AtomKind.ACCOUNT, key, hit.group(), hit.start())
    for hit in _NUMBER.finditer(text):
        if not covered[hit.start()]:
            yield from _number_atoms(hit.group(), hit.start())


def _number_atoms(text: str, start: int) -> Iterator[Atom]:
    digits = re.sub(r"\D", "", text)
    if len(digits) >= MIN_PHONE_DIGITS and len(digits) <= 15 and "," not in text:
        yield Atom(AtomKind.PHONE, digits[-PHONE_TAIL:], text, start)
    if MIN_ACCOUNT_DIGITS <= len(digits) <= 34 and "," not in text and "." not in text:
        yield Atom(AtomKind.ACCOUNT, digits, text, start)


@cache
def _iban_length(country: str) -> int:
    """Characters of an IBAN of a country, 0 for others: words may follow one without a mark."""
    ((_, properties), *_) = numdb.get("iban").info(country)
    parts = re.findall(r"(\d+)!", properties.get("bban", ""))
    return len("DE89") + sum(map(int, parts)) if parts else 0


def folded(text: str) -> str:
    """A text without case and with single blanks."""
    return " ".join(text.casefold().split())
