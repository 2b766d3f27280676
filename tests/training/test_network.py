"""Twin of training/network.py."""

from __future__ import annotations

import pytest
import torch

from training.network import FEATURES, Network, batch


def network() -> Network:
    """A small one, not in training."""
    torch.manual_seed(2)
    model = Network(50, layers=2, frozen=1).eval()
    torch.nn.init.normal_(model.types.weight)
    return model


def test_padding_changes_nothing() -> None:
    """A window has the same logits alone and beside a longer one."""
    model, short, long = network(), [5, 6, 7], list(range(4, 44))
    with torch.inference_mode():
        together, features = model(*batch([short, long], [0, 1]))
        alone, _ = model(*batch([short], [0]))
    assert features.shape == (2, FEATURES)
    assert together[0].tolist() == pytest.approx(alone[0].tolist(), abs=1e-4)


def test_who_wrote_it_matters() -> None:
    """The same words in another channel are something else."""
    model = network()
    with torch.inference_mode():
        logits = [model(*batch([[5, 6, 7]], [channel]))[0][0].tolist() for channel in (0, 1, 2)]
    assert len({tuple(logit) for logit in logits}) == 3


def test_nothing_is_dropped_in_layers_that_do_not_learn() -> None:
    """While the rest is in training, they are not; and no gradient reaches them."""
    model = network().train()
    assert (model.layers[0].training, model.layers[1].training) == (False, True)
    model(*batch([[5, 6, 7]], [1]))[0].sum().backward()
    assert model.layers[0].up.weight.grad is None
    assert model.types.weight.grad is not None
