"""Twin of sidecar/detectors/semantic/windows.py."""

from __future__ import annotations

from itertools import pairwise

import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from sidecar.detectors.semantic.windows import (
    CHUNK,
    MAX_CHUNK_FACTOR,
    Window,
    WindowSpec,
    batches,
    chunks,
    iter_windows,
    prepare_tokenizer,
    windows,
)

CUT = WindowSpec(size=8, overlap=2)
TOKENIZER = tiny_model.tokenizer()


def text_of(count: int) -> str:
    """So many words."""
    return " ".join(["calm"] * count)


@given(st.integers(min_value=0, max_value=400))
def test_every_token_is_in_a_window_and_neighbours_overlap(count: int) -> None:
    """The windows cover the text without a gap, each at most full, neighbours sharing what was asked for."""
    cuts = windows(TOKENIZER, text_of(count), CUT)
    covered = {position for window in cuts for position in range(window.start, window.end)}
    assert all(at in covered for at, letter in enumerate(text_of(count)) if letter != " ")
    assert all(len(window.ids) <= 8 for window in cuts)
    assert all(window.ids[-2:] == next_.ids[:2] and window.end > next_.start for window, next_ in pairwise(cuts))


def test_a_window_knows_where_it_stands() -> None:
    """Offsets count code points of the text, whatever the letters weigh in bytes."""
    text = "день 🙂 " + text_of(3)
    (window,) = windows(TOKENIZER, text, CUT)
    assert text[window.start : window.end] == text


def test_offsets_are_correct_after_the_first_chunk() -> None:
    """A text longer than what is tokenised at once keeps its offsets."""
    text = " " * CHUNK + "attack " + text_of(2000) + " leak"
    cuts = windows(TOKENIZER, text, CUT)
    assert text[cuts[0].start : cuts[0].start + 6] == "attack"
    assert text[cuts[-1].start : cuts[-1].end].endswith("calm leak")


def test_windows_are_made_as_they_are_asked_for() -> None:
    """The first of a long text is there before the rest has been tokenised, and no stretch parts a window."""
    text = text_of(10_000)
    tokenizer = iter_windows(TOKENIZER, text, CUT)
    assert [next(tokenizer) for _ in range(3)] == windows(TOKENIZER, text[:1000], CUT)[:3]
    assert [w.start for w in windows(TOKENIZER, text, CUT)] == list(range(0, 5 * 9_997, 30))


def test_chunks_end_at_white_space_and_leave_nothing_out() -> None:
    """What has none is cut at last, so that nobody can make one stretch of a whole body."""
    text = "calm " * 50 + "x" * 1000
    cuts = list(chunks(text, 20))
    assert "".join(part for _, part in cuts) == text
    assert all(text[at:].startswith(part) for at, part in cuts)
    assert all(part.endswith(" ") for _, part in cuts[:10])
    assert max(len(part) for _, part in cuts) == 20 * MAX_CHUNK_FACTOR


def test_a_word_without_end_is_cut_into_pieces() -> None:
    """A tokenizer that would call a long word unknown reads it in pieces, to its last letter."""
    letters = {
        letter: number for number, letter in enumerate(["[UNK]", *(f"{p}{c}" for c in "abx" for p in ("", "##"))])
    }
    tokenizer = Tokenizer(models.WordPiece(letters, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    word = "ab" * 300 + "x"
    assert tokenizer.encode(word).ids == [0]
    cuts = windows(prepare_tokenizer(tokenizer), word, WindowSpec())
    assert 0 not in {number for window in cuts for number in window.ids}
    assert cuts[-1].end == len(word)


def test_words_that_are_one_unknown_token_fill_a_window_by_their_letters() -> None:
    """One token may stand for many letters: whoever reads the window's text is spared a book, nothing is left out."""
    cut = WindowSpec(size=126, overlap=32, characters=1000)
    text = " ".join(["ก" * 60] * 200)
    cuts = windows(TOKENIZER, text, cut)
    assert all(len(window.text.replace(" ", "")) <= 1000 for window in cuts)
    assert (cuts[0].start, cuts[-1].end) == (0, len(text))
    assert all(next_.start < window.end for window, next_ in pairwise(cuts))


def test_white_space_between_words_parts_no_window() -> None:
    """An attack whose words stand pages apart is still read as one."""
    (window,) = windows(TOKENIZER, "attack" + " " * 5000 + "leak" + " " * 5000 + "calm", WindowSpec(characters=64))
    assert len(window.ids) == 3


@given(st.lists(st.integers(min_value=1, max_value=8), max_size=60), st.integers(min_value=10, max_value=50))
def test_batches_hold_every_window_once_within_the_cap(lengths: list[int], tokens: int) -> None:
    """Padded to its longest window, no batch is over the cap, and none but a single window may fill it alone."""
    cuts = [Window(tuple(range(length)), 0, 1, "x") for length in lengths]
    grouped = list(batches(cuts, tokens))
    assert sorted(index for batch in grouped for index in batch) == list(range(len(cuts)))
    assert all(len(batch) * (max(len(cuts[i].ids) for i in batch) + 2) <= tokens for batch in grouped)
