"""Twin of sidecar/kubernetes/manifests.py: what is written is read as it was by YAML 1.1, YAML 1.2 and kubectl."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidecar.kubernetes.manifests import dump_all, load_all

EVERYDAY = (
    *("y", "Y", "n", "N", "yes", "No", "on", "OFF", "true", "False", "null", "Null", "~", "", "=", "<<"),
    *("1e3", "12e5", "81234e5", "1E-3", "0o17", "0o644", "0777", "08", "0x1F", "0X1f", "0b11", "-0b1", "+12", "1_000"),
    *("12:30:45", "22:22", "190:20:30.15", "2026-11-28", "2026-11-28T10:00:00Z", "2026-11-28 10:00:00 +1"),
    *(".5", "5.", "-.5", "1.5e3", ".inf", "-.INF", "+.inf", ".nan", ".NaN", "NaN", "inf", "-", "+", ".", "0x1p-2"),
    *("1Gi", "250m", "60s", "10.0.0.1", "1.29", "v1", "- a", "a: b", "a #b", "*a", "&a", "!a", "%a", "@a", "`a"),
    *(
        "line\nline\n",
        "\n",
        "a\tb",
        " a ",
        "trailing \n",
        "\u2028",
        "\x85",
        "\ufeff",
        "\U0001f600",
        "'",
        '"',
        "yes ",
        "a\\",
    ),
)
CHARACTERS = st.text(st.sampled_from("yYnNoOesfFtTrRuUaAlLxXbBpP0123456789_.:+-~=<> \n#'\"inI"), max_size=9)
STRINGS = st.one_of(st.sampled_from(EVERYDAY), CHARACTERS, st.text(st.characters(exclude_categories=["Cs", "Cc"])))


class Core(yaml.SafeLoader):
    """The core schema of YAML 1.2 (chapter 10.3.2 of its specification)."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own mechanism


for tag, pattern in {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}.items():
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), None)


def by_core_schema(text: str) -> Any:
    """A document as a reader of YAML 1.2 reads it."""
    return yaml.load(text, Loader=Core)  # noqa: S506 - a safe loader


@given(st.dictionaries(STRINGS, STRINGS, max_size=4))
def test_strings_stay_strings_for_every_reader(value: dict[str, str]) -> None:
    """As keys and as values, by YAML 1.1, YAML 1.2 and the rules of Go."""
    text = dump_all([value])
    assert yaml.safe_load(text) == value
    assert by_core_schema(text) == value
    assert load_all(text) == [value]


@pytest.mark.parametrize("value", EVERYDAY)
def test_everyday_strings_stay_strings_for_every_reader(value: str) -> None:
    """Each of the list, which the property above may not reach in one run."""
    text = dump_all([{value: value}])
    assert yaml.safe_load(text) == {value: value}
    assert by_core_schema(text) == {value: value}
    assert load_all(text) == [{value: value}]


def by_kubectl(manifest: str, folder: Path) -> dict[str, Any]:
    """The manifest as kubectl has read it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: it reads the manifest")
    (folder / "m.yaml").write_text(manifest, "utf-8")
    command = ["kubectl", "set", "env", "--local", "-f", str(folder / "m.yaml"), "-o", "json", "ADDED=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_kubectl_reads_the_strings_that_were_written(tmp_path: Path) -> None:
    """Values of variables, labels and annotations, which Kubernetes refuses if they are no strings."""
    env = [{"name": f"V{number}", "value": value} for number, value in enumerate(EVERYDAY)]
    notes = {f"a{number}": value for number, value in enumerate(EVERYDAY)}
    spec = {"containers": [{"name": "a", "image": "a:1", "env": env}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y", "annotations": notes}, "spec": spec}
    made = by_kubectl(dump_all([pod]), tmp_path)
    assert made["metadata"]["annotations"] == notes
    seen = [entry.get("value", "") for entry in made["spec"]["containers"][0]["env"]]
    assert seen == [*EVERYDAY, "1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0o644", 420),
        ("0644", 420),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("08", 8.0),
        ("y", True),
        ("Off", False),
        ("~", None),
        ("22:22", "22:22"),
        ("2026-11-28", "2026-11-28"),
        ("2026-11-28T10:00:00Z", "2026-11-28T10:00:00Z"),
        ("=", "="),
        ("1Gi", "1Gi"),
    ],
)
def test_what_is_not_quoted_is_read_as_kubectl_reads_it(text: str, value: object, tmp_path: Path) -> None:
    """An octal mode stays a number and a time of day a string, and both are written so."""
    (read,) = load_all(f"v: {text}\n")
    assert (read, type(read["v"])) == ({"v": value}, type(value))
    assert load_all(dump_all([read])) == [read]
    if isinstance(value, str):
        metadata = f"metadata: {{name: a, annotations: {{v: {text}}}}}"
        pod = f"apiVersion: v1\nkind: Pod\n{metadata}\nspec: {{containers: [{{name: a}}]}}"
        assert by_kubectl(pod, tmp_path)["metadata"]["annotations"] == {"v": value}
