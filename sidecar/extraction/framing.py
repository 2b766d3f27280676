"""Splits a user turn at known markers with which a framework has inserted content.

Agents and chat UIs insert instruction files, environments, tasks, summaries of earlier sessions and retrieved passages
into the user's turn, between tags or after fixed sentences. The markers themselves look like an attempt to speak for
the system, and the content between them is not part of the user's sentences. So the model reads each part separately
and without the markers; rules read the whole turn including them. Nothing else is removed: a tag with attributes is not
a marker.
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


_HINTS = ("<", "New task:", "This session", "The conversation", "The summary", "Please continue", "# AGENTS")
"""One of these is in every marker. Looking for them is forty times faster than the pattern on a short text."""


class Part(NamedTuple):
    """A part of a turn without markers; `framed` if it is inside a tag."""

    text: str
    framed: bool


def parts(text: str) -> list[Part]:
    """The non-blank parts of a turn in order; empty if it holds no marker."""
    if not any(map(text.__contains__, _HINTS)):
        return []
    marks = list(_MARK.finditer(text))
    return list(_parts(text, [(mark.start(), mark.end(), mark.group()) for mark in marks])) if marks else []


def _parts(text: str, marks: list[tuple[int, int, str]]) -> Iterator[Part]:
    # Invariant: `depth` is the number of tags open at `at`; sentences open none, and extra closing tags are ignored.
    depth, at = 0, 0
    for start, end, mark in [*marks, (len(text), len(text), "")]:
        if (part := text[at:start].strip()) and at < start:
            yield Part(part, depth > 0)
        depth = max(0, depth - 1) if mark.startswith("</") else depth + mark.startswith("<")
        at = end
