"""Twin of training/tables.py: a table comes back from its codes nearly as it was."""

from __future__ import annotations

import torch

from training.tables import CENTROIDS, Table


def test_vectors_come_back_nearly_as_they_were() -> None:
    """Two numbers to a byte lose about a hundredth of a random vector, three and four more, in that order."""
    torch.manual_seed(1)
    table = torch.randn(4000, 24) * torch.rand(4000, 1) * 30
    lost = []
    for piece in (2, 3, 4):
        found = Table.of(table, piece)(torch.arange(4000))
        lost.append(float(((found - table).square().sum(1) / table.square().sum(1)).mean()))
    assert lost == sorted(lost)
    assert lost[0] < 0.02
    assert lost[2] < 0.2


def test_a_width_that_pieces_do_not_divide_is_filled_up() -> None:
    """The words that are asked for, in the shape that is asked for, of the width that went in."""
    table = torch.randn(600, 8)
    made = Table.of(table, 3)
    assert made.codes.shape == (600, 3)
    assert made.codes.dtype == torch.uint8
    assert made(torch.tensor([[1, 2], [3, 4]])).shape == (2, 2, 8)


def test_words_of_more_weight_are_kept_better() -> None:
    """Centroids go where the weight is."""
    torch.manual_seed(2)
    table = torch.randn(3 * CENTROIDS, 4)
    weight = torch.ones(len(table))
    weight[: CENTROIDS // 2] = 1000.0
    lost = (Table.of(table, 4, weight)(torch.arange(len(table))) - table).square().sum(1)
    assert lost[: CENTROIDS // 2].mean() < lost[CENTROIDS // 2 :].mean() / 4
