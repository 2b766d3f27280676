"""Takes a user's turn apart where a framework has put something into it between marks that are known.

Agents and chat UIs put instruction files, environments, tasks, summaries of earlier sessions and retrieved passages
into the turn of the user, between tags or behind fixed sentences. The marks themselves look like an attempt to speak
for the system, and what stands between them belongs to no sentence of the user. So the model reads each part alone
and without the marks; rules read the whole turn, marks included. Nothing else is left out: a tag with attributes is
no mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import re2

_TAGS = """
    system-reminder environment_context environment_details user_instructions project_instructions INSTRUCTIONS
    instructions skills_instructions collaboration_mode user_query user_request task context documents document
    retrieved_context search_results files file attached_files additional_data open_and_recently_viewed_files
    chat_history history conversation conversation_summary summary memory memories feedback command-name
    command-message command-args local-command-stdout bash-input bash-stdout bash-stderr ide_opened_file ide_selection
"""
_SENTENCES = (
    r"New task:",
    r"This session is being continued from a previous conversation that ran out of context\.",
    r"The (?:conversation is summarized below|summary below covers the earlier portion of the conversation)[.:]",
    r"Please continue the conversation from where we left it off without asking the user any further questions\.",
    r"# AGENTS\.md instructions(?: for)?",
)
_MARK = re2.compile(rf"</?(?:{'|'.join(_TAGS.split())})>|(?m:^)(?:{'|'.join(_SENTENCES)})")


class Part(NamedTuple):
    """A stretch of a turn without marks; `framed` if it stands between or behind them."""

    text: str
    framed: bool


def parts(text: str) -> list[Part]:
    """The parts of a turn in their order, blank ones left out; none if it holds no mark."""
    marks = list(_MARK.finditer(text))
    return list(_parts(text, [(mark.start(), mark.end(), mark.group()) for mark in marks])) if marks else []


def _parts(text: str, marks: list[tuple[int, int, str]]) -> Iterator[Part]:
    depth, at = 0, 0
    for start, end, mark in [*marks, (len(text), len(text), "")]:
        if (part := text[at:start].strip()) and at < start:
            yield Part(part, depth > 0)
        depth = max(0, depth - 1) if mark.startswith("</") else depth + mark.startswith("<")
        at = end
