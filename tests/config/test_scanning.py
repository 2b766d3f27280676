"""Twin of sidecar/config/scanning.py."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config import JudgeLayer, SemanticLayer, Sources
from sidecar.types import LayerName, Source


def test_each_source_has_a_policy() -> None:
    """Users and third parties are read whole, the application and the model with a high threshold."""
    policies = Sources().by_source
    assert set(policies) == set(Source)
    assert policies[Source.USER].layers == tuple(LayerName)
    assert (policies[Source.APPLICATION].threshold, policies[Source.MODEL].threshold) == (0.9, 0.9)


def test_a_judge_needs_a_model_and_a_band() -> None:
    """A band upside down would never ask."""
    with pytest.raises(ValidationError, match="needs the name of its model"):
        JudgeLayer(url="http://127.0.0.1:9/v1")
    with pytest.raises(ValidationError, match="lower bound is above"):
        JudgeLayer(between=(0.8, 0.2))


def test_removed_settings_say_what_replaced_them() -> None:
    """An old file is told, instead of an unknown setting."""
    with pytest.raises(ValidationError, match=r"layers\.semantic\.budget bounds"):
        SemanticLayer.model_validate({"windows": 256})
