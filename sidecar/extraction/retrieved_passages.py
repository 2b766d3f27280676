"""Finds what an application has put into its system prompt from elsewhere: passages, search results, mails, pages.

They are somebody else's words, and the source of an indirect injection, though the role of the turn is `system`. What
stands between known marks is read a second time, as untrusted text: between tags whose name says what they hold
(`<context>`, `[PAGE ...]`), under a heading that does (`### Documents`, `Search results:`), and between two lines of
the same signs behind such a heading or a sentence that names such material. What has other marks, or none, stays the
application's own text, and a line in a passage that looks like the next heading ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import re2

MOST = 64
"""Marks of each kind that are followed up in one prompt. Behind the last heading of so many, all is one part."""
LONGEST = 90
"""Characters of a heading, or of the clause before a colon."""
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
"""`\b` of RE2 knows ASCII letters alone."""
_NAMES = re2.compile(rf"(?i){_KIND}")
_TAG = re.compile(r"[<\[]([^<>\[\]\n/!][^<>\[\]\n]{0,240})[>\]]")
_NAME = re.compile(r"\s*[\w.-]+(?: [\w.-]+)?")
_HEADING = re2.compile(
    r"[ \t]*(?:(#{1,6})[^\n]*|\*\*|={2,}|-{2,}|[\[【])[^\n.:?!：。]*(?:[:：]?\*\*[:：]?|[=#-]{2,}|[\]】]|[:：])?[ \t]*"
)
_CLAUSE = re2.compile(r"(?:^|[.!?。])[ \t]*([^\n.:?!：。]+)[:：][ \t]*$")
_NEXT = re2.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]*\S|\*\*|={2,}|【)")
_FENCE = re2.compile(r"(?m)^[ \t]*(-{3,}|={3,}|#{3,}|\*{3,}|~{3,}|_{3,}|`{3,}\w*|\"{3}|'{3})[ \t]*$")


def passages(text: str) -> list[str]:
    """The parts of a system prompt that were put in from elsewhere, as far as marks say so, in order."""
    lines = list(_naming(text))
    if not lines:
        return []
    found = sorted({*_tagged(text), *_fenced(text, lines), *_headed(text, lines)})
    parts, end = [], 0
    for first, last in found:
        if last > end and (part := text[max(first, end) : last].strip()):
            parts.append(part)
        end = max(end, last)
    return parts


def _naming(text: str) -> Iterator[tuple[int, int]]:
    """Where lines begin and end that name such material."""
    end = -1
    for name in _NAMES.finditer(text):
        if name.start() > end:
            start, end = text.rfind("\n", 0, name.start()) + 1, text.find("\n", name.end())
            end = len(text) if end < 0 else end
            yield start, end


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    """Between a tag and the last one that closes it."""
    named = ((mark, _NAME.match(mark.group(1))) for mark in _TAG.finditer(text))
    marks = ((mark, name.group()) for mark, name in named if name and _NAMES.search(name.group()))
    for mark, name in islice(marks, MOST):
        closing = re2.compile(rf"(?i)[<\[]/[ \t]*{re2.escape(name.split()[0])}")
        if closed := list(closing.finditer(text, mark.end())):
            yield mark.end(), closed[-1].start()  # the last: a passage may close the tag itself, to get out of it


def _fenced(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """From the first line of signs behind one that names what follows to the last one alike."""
    fences = list(islice(_FENCE.finditer(text), MOST))
    for at, fence in enumerate(fences):
        before = text[: fence.start()].rstrip()
        if any(start < len(before) <= end and before[-1:] in ":：.。" for start, end in lines):
            alike = [later.start() for later in fences[at + 1 :] if later.group(1)[:3] == fence.group(1)[:3]]
            if alike:
                yield fence.end(), alike[-1]
            return


def _headed(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Under a heading, as far as the next one of its kind, or to the end."""
    headings = ((end, level) for start, end in lines if (level := _level(text[start:end])) is not None)
    for number, (end, level) in enumerate(islice(headings, MOST), 1):
        following = re2.compile(rf"(?m)^[ \t]*#{{1,{level}}}[ \t]*\S") if level else _NEXT
        later = following.search(text, end) if number < MOST else None
        yield end, later.start() if later else len(text)


def _level(line: str) -> int | None:
    """Of a line that is a heading with a name in it: how many `#` it has. None: it is no heading."""
    if found := _HEADING.fullmatch(line) if len(line) <= LONGEST else None:
        return len(found.group(1) or "")
    clause = _CLAUSE.search(line)
    named = clause is not None and len(clause.group(1)) <= LONGEST and _NAMES.search(clause.group(1))
    return 0 if named or _NAMES.fullmatch(line.strip()) else None
