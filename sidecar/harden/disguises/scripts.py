"""Scripts: letters of another look or of another alphabet."""

from __future__ import annotations

import re

from sidecar.harden.disguises.common import by_offset, by_table, each_letter


def cyrillic_lookalikes(text: str) -> str:
    """Cyrillic letters of the same look."""
    return text.translate(str.maketrans("aceopxyiABCEHKMOPTX", "асеорхуіАВСЕНКМОРТХ"))


def fullwidth(text: str) -> str:
    """Fullwidth letters."""
    return by_offset(text, 0xFF21, 0xFF41, 0xFF10)


def double_struck(text: str) -> str:
    """Mathematical sans-serif bold italic."""
    return by_offset(text, 0x1D63C, 0x1D656)


def circled(text: str) -> str:
    """Letters in circles."""
    return by_offset(text, 0x24B6, 0x24D0)


def negative_squares(text: str) -> str:
    """White letters in black squares."""
    return by_offset(text.upper(), 0x1F170, 0x1F170)


def flag_letters(text: str) -> str:
    """Regional indicators apart by blanks."""
    return "\u200b".join(by_offset(text.upper(), 0x1F1E6, 0x1F1E6))


def small_capitals(text: str) -> str:
    """Small capitals of the phonetic alphabet."""
    return text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwyz", "ᴀʙᴄᴅᴇғɢʜɪᴊᴋʟᴍɴᴏᴘǫʀsᴛᴜᴠᴡʏᴢ"))


def superscript(text: str) -> str:
    """Superscript letters."""
    return text.lower().translate(str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"))


def cyrillic_sounds(text: str) -> str:
    """English in Cyrillic by sound."""
    text = text.lower()
    for old, new in (("sh", "ш"), ("ch", "ч"), ("ya", "я"), ("yu", "ю"), ("th", "т"), ("oo", "у"), ("ee", "и")):
        text = text.replace(old, new)
    return by_table(
        text,
        dict(
            zip(
                "abcdefghijklmnopqrstuvwxyz",
                [
                    "а",
                    "б",
                    "к",
                    "д",
                    "е",
                    "ф",
                    "г",
                    "х",
                    "и",
                    "й",
                    "к",
                    "л",
                    "м",
                    "н",
                    "о",
                    "п",
                    "к",
                    "р",
                    "с",
                    "т",
                    "у",
                    "в",
                    "в",
                    "кс",
                    "й",
                    "з",
                ],
                strict=False,
            )
        ),
    )


def greek_sounds(text: str) -> str:
    """English in Greek by sound."""
    text = text.lower()
    for old, new in (("th", "θ"), ("ps", "ψ"), ("ph", "φ"), ("ou", "ου"), ("b", "μπ"), ("d", "ντ")):
        text = text.replace(old, new)
    return text.translate(str.maketrans("acefghijklmnopqrstuvwxyz", "ακεφγχιζκλμνοπκρστυβωξυζ"))


def katakana(text: str) -> str:
    """English in katakana, letter by letter."""
    row = dict(zip("aiueo", "アイウエオ", strict=False))
    rows = {
        "k": "カキクケコ",
        "c": "カシクセコ",
        "s": "サシスセソ",
        "t": "タチツテト",
        "n": "ナニヌネノ",
        "h": "ハヒフヘホ",
        "m": "マミムメモ",
        "y": "ヤイユイヨ",
        "r": "ラリルレロ",
        "l": "ラリルレロ",
        "w": "ワヰウヱヲ",
        "g": "ガギグゲゴ",
        "z": "ザジズゼゾ",
        "d": "ダヂヅデド",
        "b": "バビブベボ",
        "p": "パピプペポ",
        "v": "バビブベボ",
        "f": "ハヒフヘホ",
        "j": "ジャジジュジェジョ",
        "q": "カキクケコ",
        "x": "カキクケコ",
    }

    def turn(match: re.Match[str]) -> str:
        start, end = match[1], match[2]
        if not start:
            return row[end]
        return rows[start]["aiueo".index(end or "u")] if start != "j" else "ジ"

    return re.sub("([bcdfghjklmnpqrstvwxyz]?)([aeiou]?)", lambda match: turn(match) if match[0] else "", text.lower())


def hebrew_letters(text: str) -> str:
    """English in Hebrew letters."""
    return text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "אבקדעפגהיגקלמנופקרסטוווכיז"))


def georgian_letters(text: str) -> str:
    """English in Georgian letters."""
    return text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "აბცდეფგჰიჯკლმნოპქრსტუვწხყზ"))


def tag_characters(text: str) -> str:
    """Invisible tag characters behind a harmless word."""
    return "Hello" + "".join(chr(0xE0000 + ord(sign)) for sign in text if sign.isascii())


def variation_selectors(text: str) -> str:
    """Bytes as variation selectors behind an emoji."""
    return "😀" + "".join(chr(0xFE00 + byte) if byte < 16 else chr(0xE0100 + byte - 16) for byte in text.encode())


def braille(text: str) -> str:
    """Braille letters."""
    return text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"))


def piled_marks(text: str) -> str:
    """Three combining marks over each letter."""
    return each_letter(text, lambda sign: sign + "\u0335\u0301\u0329")


def accents(text: str) -> str:
    """Accents on the vowels."""
    return text.translate(str.maketrans("aeiouyAEIOU", "åéîöüÿÄÊÏÕÛ"))


def runes(text: str) -> str:
    """Runes by sound."""
    return text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "ᚨᛒᚲᛞᛖᚠᚷᚺᛁᛃᚲᛚᛗᚾᛟᛈᚲᚱᛊᛏᚢᚹᚹᛪᛃᛉ"))
