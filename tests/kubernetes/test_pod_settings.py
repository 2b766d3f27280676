"""Twin of sidecar/kubernetes/pod_settings.py."""

from __future__ import annotations

import pytest

from sidecar.kubernetes.pod_settings import parse, problems


def test_lines_are_read_as_an_annotation_has_them() -> None:
    """Blank lines and comments count for nothing, a value may hold an equals sign, the last of a key counts."""
    lines = ["", "# how", "scan.threshold = 0.7", "log.retention=7d", "block.message=a=b", "log.retention=3d"]
    assert parse(lines) == (("scan.threshold", "0.7"), ("log.retention", "3d"), ("block.message", "a=b"))


@pytest.mark.parametrize(
    "line",
    [
        "mode=monitor",
        "scan.threshold=0.7",
        "rules={INJ-108: {status: off}}",
        "store.url_file=/run/secrets/stores/url",
        "upstream.tls.ca_file=/etc/ca.pem",
        "limits.rate=60/minute",
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_setting_of_the_file_is_one_here(line: str, *, alone: bool) -> None:
    """A file of the cluster need not be here."""
    assert problems(parse([line]), alone=alone) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("scan.treshold=0.7", "did you mean"),
        ("scan.threshold=high", "scan.threshold: must be a number"),
        ("mode=observe", "must be 'enforce' or 'monitor'"),
        ("nothing.url_file=/x", "nothing.url_file: unknown setting"),
        ("upstream.url=http://x", "--upstream"),
        ("listen.port=9000", "--data-port"),
        ("upstream={url: http://x}", "upstream is a section"),
        ("alerts.url=https://hooks.example/x", "alerts.url_file"),
        ("just words", "write it like scan.threshold=0.7"),
        ("mode=", "a value is one line"),
        ("block.message=$(SECRET)", "without $("),
        ("models={a: {layers: [&a [x], *a]}}", "no aliases"),
        ("block.message=" + "[" * 3000, "at most 50 brackets"),
        ("store.url=postgresql://me:secret@host/db", "store.url_file=PATH"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_what_would_not_start_is_refused_before_it_is_written(line: str, words: str, *, alone: bool) -> None:
    """With the name of the setting, and never with a secret."""
    (found,) = problems(parse([line]), alone=alone)
    assert words in found
    assert "secret" not in found.lower().replace("mounted secret", "")


def test_settings_must_fit_together_where_no_file_completes_them() -> None:
    """A judge without a model: the ConfigMap may name it."""
    judge = parse(["layers.llm_judge.url=http://judge/v1"])
    assert "needs the name of its model" in problems(judge, alone=True)[0]
    assert problems(judge, alone=False) == []


def test_their_number_is_bounded() -> None:
    """Annotations are written by anybody."""
    assert problems(parse(f"k{number}=1" for number in range(101)), alone=True) == ["there are more than 100 settings"]
