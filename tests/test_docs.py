"""The documentation: every code block runs, every setting exists, the reference is current, the site builds."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import neighbours
import pytest
import yaml
from support import RULES_ONLY, SidecarProcess, StartSidecar

from sidecar import config
from tools import reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
OUTSIDE = [
    README,
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "policies/README.md")),
]
OTHERS = "http://127.0.0.1:8080"


def blocks(language: str) -> Iterator[tuple[Path, int, str]]:
    """All code blocks of a language: page, number, text."""
    for page in (*PAGES, README):
        for number, text in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)):
            yield page, number, text


def named(language: str) -> list[Any]:
    """The same as parameters of a test; what needs a neighbour is marked."""
    beside = (pytest.mark.neighbours, pytest.mark.timeout(1200))
    return [
        pytest.param(page, text, id=f"{page.stem}-{number}", marks=beside if "langchain" in text else ())
        for page, number, text in blocks(language)
    ]


@pytest.fixture(scope="module")
def served(start_sidecar: StartSidecar) -> tuple[SidecarProcess, str]:
    """A sidecar with every contract on, and a key."""
    made = start_sidecar({**RULES_ONLY, "compat": dict.fromkeys(config.Compat.model_fields, True)})
    return made, made.new_key()["key"]


def test_the_configuration_reference_is_current() -> None:
    """`python -m tools.reference` writes it; whoever changes a setting runs that."""
    assert (DOCS / "configuration.md").read_text("utf-8") == reference.page()


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_every_variable_that_a_page_names_is_a_setting(page: Path, tmp_path: Path) -> None:
    """Whoever pastes a line gets what it says."""
    found = re.findall(r"(SIDECAR__[A-Z0-9_]+)=([^\s`]+)", page.read_text("utf-8"))
    (tmp_path / "secret").write_text("sqlite:///x.db", "utf-8")
    environment = {name: str(tmp_path / "secret") if name.endswith("_FILE") else value for name, value in found}
    (tmp_path / "c.yaml").write_text("", "utf-8")
    config.load(tmp_path / "c.yaml", environment)


@pytest.mark.parametrize(("page", "text"), named("yaml"))
def test_every_block_of_settings_is_valid(page: Path, text: str) -> None:
    """Blocks that begin with a section of ours load; the others are at least YAML."""
    values = yaml.safe_load(text)
    if set(values) <= set(config.Settings.model_fields):
        config.Settings.model_validate(values)


@pytest.mark.parametrize(("page", "text"), named("python"))
def test_every_python_block_runs(
    page: Path, text: str, served: tuple[SidecarProcess, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a real sidecar; what the text claims is asserted in the block itself."""
    running, key = served
    code = text.replace(OTHERS, running.base)
    if "langchain" in code:
        command = [neighbours.neighbours() / "python", "-c", code]
        made = subprocess.run(
            command, capture_output=True, check=False, timeout=100, env={**os.environ, "SIDECAR_API_KEY": key}
        )
        assert made.returncode == 0, made.stderr.decode()
        return
    monkeypatch.setenv("SIDECAR_API_KEY", key)
    exec(compile(code, str(page), "exec"), {"__name__": "block"})  # noqa: S102 - our own documentation


@pytest.mark.parametrize(("page", "text"), [one for one in named("sh") if "curl" in one.values[1]])
def test_every_curl_line_is_answered(page: Path, text: str, served: tuple[SidecarProcess, str]) -> None:
    """200 with a verdict that names the attack."""
    running, key = served
    code = text.replace(OTHERS, running.base).replace("curl -s", "curl -sf")
    made = subprocess.run(
        ["bash", "-c", code], capture_output=True, check=False, env={**os.environ, "SIDECAR_API_KEY": key}
    )
    assert made.returncode == 0, made.stderr
    assert b'"block"' in made.stdout or b'"is_valid":false' in made.stdout or b'"flagged":true' in made.stdout


def test_the_first_answer_is_the_one_that_the_readme_shows(served: tuple[SidecarProcess, str]) -> None:
    """But for the time that it took."""
    running, key = served
    asked = json.loads(re.findall(r"-d '(\{.*?\})'", README.read_text("utf-8"))[0])
    (shown,) = (json.loads(text) for page, _, text in blocks("json") if page == README)
    found = httpx.post(f"{running.base}/api/v1/prompt/scan", json=asked, headers={"X-API-Key": key}).json()
    assert {**found, "latency_ms": 0} == {**shown, "latency_ms": 0}


def test_the_readme_quotes_the_figures_of_detection() -> None:
    """They stand in docs/detection.md; whoever measures anew copies the rows."""
    rows = README.read_text("utf-8").partition("| detector |")[2].partition("\n\n")[0].splitlines()[1:]
    known = (DOCS / "detection.md").read_text("utf-8").splitlines()
    assert len(rows) >= 5
    assert [row for row in rows if row not in known] == []


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_outside_the_site_lead_somewhere(page: Path) -> None:
    """Files that exist, headings that are there; those of the site are checked by its build."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if link.startswith("http"):
            continue
        name, _, heading = link.partition("#")
        found = (page.parent / name) if name else page
        assert found.exists(), link
        assert not heading or heading in anchors(found), link


def test_every_page_is_in_the_menu() -> None:
    """A page that nobody finds is not there."""
    menu = (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:")[2]
    assert [str(page.relative_to(DOCS)) for page in PAGES if str(page.relative_to(DOCS)) not in menu] == []


@pytest.mark.neighbours
@pytest.mark.timeout(1200)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere fails the build."""
    command = [neighbours.neighbours() / "mkdocs", "build", "--strict", "-q", "-d", tmp_path / "site"]
    made = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    assert made.returncode == 0, made.stderr.decode()
    assert (tmp_path / "site" / "configuration.html").exists()
