"""The house rules: import floors, twins, config.yaml complete, docstrings on tests, files of readable size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sidecar.config import Section, Settings

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sidecar"
TESTS = ROOT / "tests"

LEVEL_ROW = re.compile(r"\| (\d+) \| ([^|]*) \|")
LEVELS = {
    name.strip("`"): int(row[1])
    for row in LEVEL_ROW.finditer((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    for name in row[2].split()
}
"""The packages and their levels, as CONTRIBUTING prints them."""


def modules() -> list[Path]:
    """All modules of the package but migrations, which alembic loads by path."""
    return [p for p in sorted(PACKAGE.rglob("*.py")) if "migrations" not in p.parts and "_policies" not in p.parts]


def package_of(path: Path) -> str:
    """The package, or a module at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The packages of ours that a module imports."""
    return set(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sidecar":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sidecar."))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_downward_only(path: Path) -> None:
    """A module imports from its own package and from lower levels (CONTRIBUTING), nothing else."""
    here = package_of(path)
    if here in {"__init__", "__main__"}:
        return
    for there in imported(path) - {"__version__"}:
        assert there == here or LEVELS[there] < LEVELS[here], f"{here} (level {LEVELS[here]}) imports {there}"


def test_every_package_has_a_level() -> None:
    """The table in CONTRIBUTING is complete, and names nothing that is not there."""
    assert {package_of(path) for path in modules()} - {"__init__", "__main__"} == set(LEVELS)


def test_every_module_has_a_test_twin() -> None:
    """sidecar/a/b.py is tested by tests/a/test_b.py; types and errors are pure declarations."""
    exempt = {"__init__.py", "__main__.py", "types.py", "errors.py", "metrics.py"}
    missing = [
        str(path.relative_to(PACKAGE))
        for path in modules()
        if path.name not in exempt and not (TESTS / path.relative_to(PACKAGE).parent / f"test_{path.name}").exists()
    ]
    assert missing == []


def settings_of(model: type[Section], prefix: str = "") -> Iterator[str]:
    """All settings as dotted names."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from settings_of(info.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name


def names_in(value: object, prefix: str = "") -> Iterator[str]:
    """The same from a YAML mapping."""
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from names_in(below, f"{prefix}{name}.")
    else:
        yield prefix.removesuffix(".")


def test_config_yaml_names_every_setting_with_its_default() -> None:
    """The file is the reference: every setting, and exactly the defaults."""
    values = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    assert sorted(names_in(values)) == sorted(settings_of(Settings))
    assert Settings.model_validate(values) == Settings()


def test_config_yaml_explains_every_setting() -> None:
    """Each line with a setting ends in a comment."""
    lines = (ROOT / "config.yaml").read_text("utf-8").splitlines()
    bare = [line for line in lines if ":" in line and not line.lstrip().startswith("#") and "# " not in line]
    assert [line for line in bare if not line.strip().endswith(":")] == []


def test_every_test_says_what_it_promises() -> None:
    """A test without a docstring does not say which behaviour it holds."""
    silent = [
        f"{path.name}:{node.name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if "node_modules" not in path.parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_files_stay_readable() -> None:
    """No module over 400 lines: then something wants a module of its own."""
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text("utf-8").splitlines())) > 400}
    assert long == {}
