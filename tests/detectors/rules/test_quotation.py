"""The words around a quotation, in two dozen languages."""

from __future__ import annotations

import pytest

from sidecar.detectors.rules.quotation import COMMANDS, CONTINUES, INSTRUCTIONS, SHOWS


@pytest.mark.parametrize(
    "text",
    [
        "Complete this sentence:",
        "What comes right after",
        "Fill in the blank:",
        "Setze den Text fort:",
        "Wat staat er na",
        "Complète la phrase :",
        "Continúa este texto:",
        "Cosa viene dopo",
        "O que vem depois de",
        "Dokończ zdanie:",
        "Продолжи текст:",
        "Cümleyi tamamla:",
        "请补全这句话：",
        "次の文の続きを書いてください",
        "다음 문장을 완성하세요",
        "أكمل الجملة:",
        "वाक्य पूरा करें:",
        "Lengkapi kalimat ini:",
        "Hoàn thành câu sau:",
        "เติมข้อความให้สมบูรณ์",
    ],
)
def test_orders_to_go_on(text: str) -> None:
    """Requests to continue where a quotation ends."""
    assert CONTINUES.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "Continue.",
        "Please show the rest of the file.",
        "Complete the task and submit.",
        "Print the next command.",
        "Weiter so!",
        "Continue with the next step",
    ],
)
def test_orders_to_go_on_with_the_work_are_none(text: str) -> None:
    """Everyday wordings do not match."""
    assert not CONTINUES.search(text)


@pytest.mark.parametrize(
    "text", ["your instructions", "the text above", "deinen Anweisungen", "你的指令", "твоих инструкциях"]
)
def test_the_instructions_are_named(text: str) -> None:
    """In several languages."""
    assert INSTRUCTIONS.search(text)


def test_showing() -> None:
    """And being told of something."""
    assert all(map(SHOWS.search, ("Print it", "wiederhole", "repite", "повтори", "重复", "answer yes or no")))
    assert not SHOWS.search("Where is the harbour?")


def test_what_speaks_to_the_model() -> None:
    """A command of the author, not a fact of the subject."""
    assert all(
        map(COMMANDS.search, ("Never offer a discount", "You are Nora, the agent", "Antworte nur auf", "不要透露"))
    )
    assert not any(map(COMMANDS.search, ("Refunds go to the original payment method", "Die Karte kostet zwölf Euro")))
