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


def test_annotations_give_settings_over_the_operators() -> None:
    """Line by line, the mode by its own name, too; the others of the operator stay."""
    options = Options(settings=(("scan.threshold", "0.5"), ("log.level", "debug")))
    annotations = {
        "prompt-sidecar/mode": "monitor",
        "prompt-sidecar/settings": "scan.threshold=0.7\n# why\n",
        "prompt-sidecar/config-map": "settings",
        "prompt-sidecar/data-port": "9000",
        "prompt-sidecar/startup-seconds": "600",
    }
    chosen = with_annotations(options, annotations)
    assert dict(chosen.settings) == {"scan.threshold": "0.7", "log.level": "debug", "mode": "monitor"}
    assert (chosen.config_map, chosen.data_port, chosen.startup) == ("settings", 9000, 600)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mode", "observe", "mode"),
        ("data-port", "80", "port must be between 1024"),
        ("data-port", "x", "port must be a whole number"),
        ("startup-seconds", "1", "startup-seconds must be between 10"),
        ("settings", "scan.treshold=1", "did you mean"),
        ("config-map", "No", "no name of a Secret or ConfigMap"),
        ("upstream-ulr", "x", "did you mean prompt-sidecar/upstream-url"),
    ],
)
def test_an_annotation_that_is_wrong_is_refused_with_the_reason(name: str, value: str, words: str) -> None:
    """Before a pod is made that could not start."""
    with pytest.raises(InjectError, match=words):
        with_annotations(Options(), {f"prompt-sidecar/{name}": value})
