"""Twin of sidecar/util/yaml.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.util import yaml


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3, 'a' is set twice, first in line 1"),
        ("x:\n  y: {k: 1, 'k': 2}\n", "line 2, 'k' is set twice, first in line 2"),
        ("- {a: 1}\n- a: 1\n  a: 1\n", "line 3, 'a' is set twice, first in line 2"),
        ("1: a\n0x1: b\n", "line 2, '0x1' is set twice, first in line 1"),
        ("a: 1\n---\nb: 1\nb: 1\n", "line 4, 'b' is set twice, first in line 3"),
    ],
)
def test_a_key_that_is_set_twice_is_an_error_with_both_lines(text: str, problem: str) -> None:
    """Wherever the mapping stands, and however the key is written."""
    with pytest.raises(yaml.YamlError) as caught:
        yaml.load_all(text)
    assert yaml.describe(caught.value) == problem


def test_merged_and_repeated_mappings_are_no_duplicates() -> None:
    """What stands beside a merge overrides it, as YAML says; an alias is read once."""
    text = "a: &a {b: 1}\nc: &c {<<: *a, b: 2}\nd: {<<: *c}\ne: *c\n"
    assert yaml.load(text) == {"a": {"b": 1}, "c": {"b": 2}, "d": {"b": 2}, "e": {"b": 2}}


def test_aliases_of_aliases_are_searched_once() -> None:
    """Thirty levels of doubling would take for ever otherwise."""
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30))]
    assert len(yaml.load("\n".join(lines))) == 30


def test_an_error_names_the_line_and_quotes_none() -> None:
    """The line may hold a secret."""
    with pytest.raises(yaml.YamlError) as caught:
        yaml.load("a: 1\nkey: [secret\n")
    assert yaml.describe(caught.value).startswith("line 3, ")
    assert "secret" not in yaml.describe(caught.value)


def test_no_module_reads_yaml_of_operators_in_another_way() -> None:
    """PyYAML itself is for writing, for tokens, for the strict loaders, and for the package's own OpenAPI file."""
    package = Path(yaml.__file__).parents[1]
    direct = [path for path in package.rglob("*.py") if "import yaml" in path.read_text("utf-8").splitlines()]
    assert sorted(path.relative_to(package).as_posix() for path in direct) == [
        "api/openapi.py",
        "harden/fragment.py",
        "kubernetes/manifests.py",
        "kubernetes/pod_settings.py",
        "util/yaml.py",
    ]
