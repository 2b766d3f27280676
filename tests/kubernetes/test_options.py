"""Twin of sidecar/kubernetes/options.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import InjectError
from sidecar.kubernetes.options import Options, with_annotations


@pytest.mark.parametrize("image", ["", "-x", "a b", "a\nb", "x" * 600])
def test_an_image_must_be_a_reference(image: str) -> None:
    """Whatever a registry would not take is refused before it is written."""
    with pytest.raises(InjectError, match="image"):
        Options(image=image)


@given(st.text(max_size=80))
def test_whatever_is_accepted_as_an_upstream_is_plain(text: str) -> None:
    """No variable expansion, no control characters, no credentials: by any annotation."""
    try:
        options = with_annotations(Options(), {"prompt-sidecar/upstream-url": text})
    except InjectError:
        return
    assert options.upstream.startswith(("http://", "https://"))
    assert not set(options.upstream) & set("$ \n\t@")


def test_what_is_encrypted_cannot_be_redirected() -> None:
    """Asked for by the operator or by an annotation."""
    annotations = {"prompt-sidecar/redirect": "true", "prompt-sidecar/upstream-url": "http://model:8000"}
    assert with_annotations(Options(), annotations).redirect
    with pytest.raises(InjectError, match="TLS"):
        with_annotations(Options(), {"prompt-sidecar/redirect": "true"})
    with pytest.raises(InjectError, match='redirect must be "true"'):
        with_annotations(Options(), annotations | {"prompt-sidecar/redirect": "yes"})


def test_annotations_of_others_are_none_of_our_business() -> None:
    """Only our own prefix is read."""
    assert with_annotations(Options(), {"kubectl.kubernetes.io/restartedAt": "now", "x": 1}) == Options()
