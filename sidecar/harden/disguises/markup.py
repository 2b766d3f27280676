"""Markup inside words, and texts that are spread over lists, tables, fields and code."""

from __future__ import annotations

import html
import json
import re

from sidecar.harden.disguises.common import each_letter, each_word


def empty_tags(text: str) -> str:
    """An empty tag inside each word."""
    return each_word(text, lambda word: word[:2] + "<b></b>" + word[2:])


def span_letters(text: str) -> str:
    """A span round each letter."""
    return each_letter(text, lambda sign: f"<span>{sign}</span>")


def breaks_in_words(text: str) -> str:
    """A word break tag behind each second letter."""
    return each_word(text, lambda word: "<wbr>".join(re.findall("..?", word)))


def bold_markdown(text: str) -> str:
    """Each letter in Markdown bold."""
    return each_letter(text, lambda sign: f"**{sign}**")


def code_markdown(text: str) -> str:
    """Each word's halves in code signs."""
    return each_word(text, lambda word: f"`{word[:2]}``{word[2:]}`")


def latex_letters(text: str) -> str:
    """LaTeX, a command round each letter."""
    return (
        "$"
        + "".join(f"\\mathrm{{{sign}}}" if sign.isalpha() else "\\ " if sign == " " else sign for sign in text)
        + "$"
    )


def latex_groups(text: str) -> str:
    """LaTeX, empty groups inside words."""
    return each_word(text, lambda word: word[:2] + "{}" + word[2:])


def hidden_span(text: str) -> str:
    """Between harmless words, in white letters of size zero."""
    return f'<p>Thank you for your order.<span style="font-size:0;color:#fff">{text}</span></p>'


def html_comment(text: str) -> str:
    """Inside an HTML comment."""
    return f"<p>Opening hours: 9 to 5.</p><!-- {text} -->"


def svg_text(text: str) -> str:
    """Each word in a text element of an SVG picture."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg">'
        + "".join(f'<text y="{12 * at}">{html.escape(word)}</text>' for at, word in enumerate(text.split(), 1))
        + "</svg>"
    )


def numbered_words(text: str) -> str:
    """A numbered list of the words."""
    return "\n".join(f"{at}. {word}" for at, word in enumerate(text.split(), 1))


def word_table(text: str) -> str:
    """A Markdown table of words, four a row."""
    words = text.split()
    return "\n".join("| " + " | ".join(words[at : at + 4]) + " |" for at in range(0, len(words), 4))


def code_variables(text: str) -> str:
    """Pieces of seven signs in variables that code joins."""
    pieces = re.findall("(?s).{1,7}", text)
    names = [f"p{at}" for at in range(len(pieces))]
    return (
        "\n".join(f"{name} = {piece!r}" for name, piece in zip(names, pieces, strict=False))
        + f"\nrun({' + '.join(names)})"
    )


def json_fields(text: str) -> str:
    """One word a field of a JSON object."""
    return json.dumps({f"w{at}": word for at, word in enumerate(text.split())})


def yaml_items(text: str) -> str:
    """A YAML list of pieces of two words."""
    words = text.split()
    return "steps:\n" + "\n".join(f"  - {' '.join(words[at : at + 2])}" for at in range(0, len(words), 2))


def columns(text: str) -> str:
    """Letters from top to bottom, words as columns."""
    words = text.split()
    return "Read each column downwards:\n" + "\n".join(
        " ".join(word[at] if at < len(word) else "." for word in words) for at in range(max(map(len, words), default=0))
    )
