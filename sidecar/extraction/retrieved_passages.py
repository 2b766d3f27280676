"""Finds retrieved content that an application has put into its system prompt: passages, search results, mails, pages.

It is third-party text, and a source of indirect injection, although the role of the turn is `system`. Text between
known markers is scanned a second time, as untrusted: between tags with a telling name (`<context>`, `[PAGE ...]`),
under such a heading (`### Documents`, `Search results:`), and between two equal fence lines after such a heading or a
sentence that names such material. Text with other markers, or none, stays the application's own, and a line in a
passage that looks like the next heading ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import re2

MAX_MARKS = 64
"""Markers of each kind that are evaluated per prompt. All text after the last such heading is one passage."""
MAX_HEADING = 90
"""Longest heading, or clause before a colon, in characters."""
_KINDS = r"""
    contexts? retrieved passages? excerpts? snippets? documents? docs? chunks? sources? articles? references? citations?
    search[\s_-]?results? results? pages? web[\s_-]?pages? websites? e?-?mails? messages? threads? tickets? reviews?
    comments? transcripts? attachments? files? notes tool[\s_-]?outputs? tool[\s_-]?results? knowledge[\s_-]?base
    wiki faqs? records? quotes? posts? letters? memor(?:y|ies) profiles? catalog(?:ue)?s? abstracts?
    imported found readings? custom[\s_-]?instructions lore
    kontext ausz[üu]ge? textstellen dokumente? suchergebnisse? quellen? fundstellen artikel seiten? nachrichten
    kommentare notizen bewertungen
    contexte extraits? r[ée]sultats articles courriels? commentaires avis fiches?
    contextos? documentos? fragmentos? resultados? pasajes? fuentes? correos? mensajes? extractos? rese[ñn]as?
    trechos? fontes? mensagens coment[áa]rios? contesto documenti estratti passaggi risultati fonti messaggi
    контекст документы отрывки фрагменты результаты источники письма выдержки материалы статьи
    контексту документи уривки джерела kontekst dokumenty fragmenty wyniki źródła wiadomości
    ba[ğg]lam belgeler kaynaklar sonu[çc]lar[ıi]? al[ıi]nt[ıi]lar metinler documenten fragmenten bronnen berichten
    ng[ữu]-?\s?c[ảa]nh t[àa]i\sli[ệe]u k[ếe]t\squ[ảa] [đd]o[ạa]n\str[íi]ch
"""
_UNSPACED = (
    "上下文|参考资料|检索结果|检索到|搜索结果|文档|资料|知识库|邮件|片段|摘录|コンテキスト|文脈|参考資料|検索結果|文書|抜粋|資料"
    "|メール|컨텍스트|문맥|검색\\s?결과|문서|참고\\s?자료|발췌"
)
_WORDS = _KINDS.split()
_KIND = (
    rf"(?:\b(?:{'|'.join(word for word in _WORDS if word.isascii())})\b"
    rf"|{'|'.join(word for word in _WORDS if not word.isascii())}|{_UNSPACED})"
)
"""`\b` in RE2 covers only ASCII letters."""
_NAMES = re2.compile(rf"(?i){_KIND}")
_TAG = re.compile(r"[<\[]([^<>\[\]\n/!][^<>\[\]\n]{0,240})[>\]]")
_NAME = re.compile(r"\s*[\w.-]+(?: [\w.-]+)?")
_HEADING = re2.compile(
    r"[ \t]*(?:(#{1,6})[^\n]*|\*\*|={2,}|-{2,}|[\[【])[^\n.:?!：。]*(?:[:：]?\*\*[:：]?|[=#-]{2,}|[\]】]|[:：])?[ \t]*"
)
_CLAUSE = re2.compile(r"(?:^|[.!?。])[ \t]*([^\n.:?!：。]+)[:：][ \t]*$")
_ANY_HEADING = re2.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]*\S|\*\*|={2,}|【)")
_FENCE = re2.compile(r"(?m)^[ \t]*(-{3,}|={3,}|#{3,}|\*{3,}|~{3,}|_{3,}|`{3,}\w*|\"{3}|'{3})[ \t]*$")


def passages(text: str) -> list[str]:
    """The passages of a system prompt that markers identify as retrieved, in order and without overlap."""
    lines = list(_naming_lines(text))
    if not lines:
        return []
    ranges = sorted({*_tagged_ranges(text), *_fenced_ranges(text, lines), *_headed_ranges(text, lines)})
    # Invariant: text before `covered` is done. Ranges are sorted by start, so clipping them there keeps parts disjoint.
    parts, covered = [], 0
    for start, stop in ranges:
        if stop > covered and (part := text[max(start, covered) : stop].strip()):
            parts.append(part)
        covered = max(covered, stop)
    return parts


def _naming_lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line that names such material."""
    end = -1
    for name in _NAMES.finditer(text):
        if name.start() > end:
            start, end = text.rfind("\n", 0, name.start()) + 1, text.find("\n", name.end())
            end = len(text) if end < 0 else end
            yield start, end


def _tagged_ranges(text: str) -> Iterator[tuple[int, int]]:
    """The ranges between an opening tag and its last closing tag."""
    name_matches = ((mark, _NAME.match(mark.group(1))) for mark in _TAG.finditer(text))
    marks = ((mark, name.group()) for mark, name in name_matches if name and _NAMES.search(name.group()))
    last: dict[str, int] = {}
    for mark, name in islice(marks, MAX_MARKS):
        word = name.split()[0]
        if word not in last:  # the last one: a passage may contain a closing tag to escape
            closing = re2.compile(rf"(?i)[<\[]/[ \t]*{re2.escape(word)}")
            last[word] = max((tag.start() for tag in closing.finditer(text, mark.end())), default=-1)
        if last[word] >= mark.end():
            yield mark.end(), last[word]


def _fenced_ranges(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The range from the first fence line after a line that names such material to the last equal fence."""
    fences = list(islice(_FENCE.finditer(text), MAX_MARKS))
    for number, fence in enumerate(fences):
        preceding = text[: fence.start()].rstrip()
        if any(start < len(preceding) <= end and preceding[-1:] in ":：.。" for start, end in lines):
            ends = [later.start() for later in fences[number + 1 :] if later.group(1)[:3] == fence.group(1)[:3]]
            if ends:
                yield fence.end(), ends[-1]
            return


def _headed_ranges(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges below a heading, up to the next heading of its level or the end."""
    headings = ((end, level) for start, end in lines if (level := _heading_level(text[start:end])) is not None)
    for number, (end, level) in enumerate(islice(headings, MAX_MARKS), 1):
        following = re2.compile(rf"(?m)^[ \t]*#{{1,{level}}}[ \t]*\S") if level else _ANY_HEADING
        next_heading = following.search(text, end) if number < MAX_MARKS else None
        yield end, next_heading.start() if next_heading else len(text)


def _heading_level(line: str) -> int | None:
    """The number of `#` of a heading that names such material; None if the line is not one."""
    if heading := _HEADING.fullmatch(line) if len(line) <= MAX_HEADING else None:
        return len(heading.group(1) or "")
    clause = _CLAUSE.search(line)
    names_material = clause is not None and len(clause.group(1)) <= MAX_HEADING and _NAMES.search(clause.group(1))
    return 0 if names_material or _NAMES.fullmatch(line.strip()) else None
