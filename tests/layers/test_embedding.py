"""Twin of sidecar/layers/embedding.py."""

from __future__ import annotations

import tiny_model

from sidecar.layers.embedding import Padding


def test_windows_are_dressed_and_padded() -> None:
    """Special tokens of the tokenizer around each window, padding behind it, and a mask that says so."""
    arrays = Padding(tiny_model.tokenizer(), channels=False)([[4, 5], [6]], [False, True])
    assert arrays["input_ids"].tolist() == [[2, 4, 5, 3], [2, 6, 3, 0]]
    assert arrays["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert arrays["token_type_ids"].tolist() == [[0] * 4, [0] * 4]


def test_the_channel_is_the_token_type_where_the_model_knows_it() -> None:
    """Text that is only read is marked by type 1."""
    arrays = Padding(tiny_model.tokenizer(), channels=True)([[4, 5], [6]], [False, True])
    assert arrays["token_type_ids"].tolist() == [[0] * 4, [1] * 4]
