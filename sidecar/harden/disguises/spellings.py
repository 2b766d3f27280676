"""Spellings: words that are misspelled, reversed, or spelled out."""

from __future__ import annotations

import re

from sidecar.harden.disguises.common import by_table, each_word


def sixth_dropped(text: str) -> str:
    """Every sixth letter left out."""
    return "".join(sign for at, sign in enumerate(text, 1) if at % 6)


def one_dropped(text: str) -> str:
    """One inner letter of every longer word left out."""
    return each_word(text, lambda word: word if len(word) < 5 else word[: len(word) // 2] + word[len(word) // 2 + 1 :])


def keyboard_slips(text: str) -> str:
    """A neighbouring key in place of the third letter."""
    keys = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuiooosdfghjkkkxcvbnmm", strict=False))
    return each_word(text, lambda word: word if len(word) < 5 else word[:2] + keys.get(word[2], word[2]) + word[3:])


def leet(text: str) -> str:
    """Digits for the usual letters."""
    return text.lower().translate(str.maketrans("aeiost", "431057"))


def heavy_leet(text: str) -> str:
    """Signs and digits for most letters."""
    return by_table(
        text,
        {
            "a": "/-\\",
            "b": "8",
            "c": "(",
            "e": "3",
            "g": "9",
            "h": "|-|",
            "i": "!",
            "l": "1",
            "n": "|\\|",
            "o": "0",
            "s": "$",
            "t": "+",
            "u": "|_|",
            "v": "\\/",
        },
    )


def reversed_words(text: str) -> str:
    """The letters of each word in reverse."""
    return each_word(text, lambda word: word[::-1])


def numbers(text: str) -> str:
    """Numbers from 1 to 26 for letters, slashes between words."""
    return " / ".join(
        "-".join(str(ord(sign) - 96) if "a" <= sign <= "z" else sign for sign in word) for word in text.lower().split()
    )


RADIO = [
    "Alfa",
    "Bravo",
    "Charlie",
    "Delta",
    "Echo",
    "Foxtrot",
    "Golf",
    "Hotel",
    "India",
    "Juliett",
    "Kilo",
    "Lima",
    "Mike",
    "November",
    "Oscar",
    "Papa",
    "Quebec",
    "Romeo",
    "Sierra",
    "Tango",
    "Uniform",
    "Victor",
    "Whiskey",
    "Xray",
    "Yankee",
    "Zulu",
]


def acrostic(text: str) -> str:
    """The first letters of a list of words give the text."""
    fill = {
        word[0]: word
        for word in [
            "apple",
            "banana",
            "cherry",
            "date",
            "elder",
            "fig",
            "grape",
            "honey",
            "iris",
            "jam",
            "kiwi",
            "lemon",
            "mango",
            "nut",
            "olive",
            "plum",
            "quince",
            "rose",
            "sage",
            "thyme",
            "umber",
            "vine",
            "wheat",
            "xenia",
            "yam",
            "zest",
        ]
    }
    return "Take the first letter of each word:\n" + "\n".join(
        " ".join(fill.get(sign, sign) for sign in word) for word in text.lower().split()
    )


def phonetic(text: str) -> str:
    """Words as they sound: f for ph, k for c, z for s at the end."""
    for old, new in (
        ("ph", "f"),
        ("ck", "k"),
        ("ca", "ka"),
        ("co", "ko"),
        ("ious", "eeus"),
        ("tion", "shun"),
        ("you", "yoo"),
        ("ore", "oar"),
        ("all", "awl"),
        ("ee", "ea"),
        ("ys", "is"),
    ):
        text = text.replace(old, new)
    return each_word(text, lambda word: re.sub("s$", "z", word))


def stutter(text: str) -> str:
    """The first letter said twice."""
    return each_word(text, lambda word: f"{word[0]}-{word}")


def no_blanks(text: str) -> str:
    """Words joined without blanks, lower case."""
    return re.sub(r"\s+", "", text.lower())


def alternating_case(text: str) -> str:
    """Upper and lower case in turn."""
    return "".join(sign.upper() if at % 2 else sign.lower() for at, sign in enumerate(text))


def keypad(text: str) -> str:
    """Presses of a telephone's keys."""
    keys = {
        sign: str(key) * press
        for key, signs in zip(range(2, 10), ["abc", "def", "ghi", "jkl", "mno", "pqrs", "tuv", "wxyz"], strict=False)
        for press, sign in enumerate(signs, 1)
    }
    return " 0 ".join(" ".join(keys.get(sign, sign) for sign in word) for word in text.lower().split())


def starred_vowels(text: str) -> str:
    """A star for the second vowel and all after it of each word."""
    return each_word(text, lambda word: word[:1] + re.sub("[aeiou]", "*", word[1:]))


def lisp(text: str) -> str:
    """S said as th, r as w."""
    return text.replace("s", "th").replace("r", "w").replace("l", "w")
