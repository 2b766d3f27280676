"""Checks the overlays and the Dockerfile with checkov: fails unless it finds exactly what k8s/checkov.yaml excuses.

Usage: python -m tools.manifests CHECKOV      CHECKOV: the command, as `make manifests` installs it
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
OVERLAYS = ROOT / "k8s" / "overlays"
Finding = tuple[str, str]
"""The check, and the overlay (or `Dockerfile`) where it fails."""


def render(folder: Path) -> None:
    """Every overlay as one file, as the API server would get it."""
    for overlay in sorted(path for path in OVERLAYS.iterdir() if path.is_dir()):
        process = subprocess.run(["kubectl", "kustomize", overlay], capture_output=True, check=True)  # noqa: S603, S607
        (folder / f"{overlay.name}.yaml").write_bytes(process.stdout)


def findings(checkov: str, folder: Path) -> Iterator[Finding]:
    """The findings of checkov in the rendered overlays and the Dockerfile."""
    targets = (("kubernetes", "-d", str(folder)), ("dockerfile", "-f", str(ROOT / "Dockerfile")))
    for framework, *where in targets:
        command = [checkov, "--framework", framework, *where, "--skip-download", "--quiet", "--compact", "-o", "json"]
        process = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
        report = json.loads(process.stdout)
        if report["summary"]["parsing_errors"] or not report["summary"]["passed"]:
            sys.exit(f"checkov could not read the {framework} files: {process.stderr.decode()[-500:]}")
        for failed in report["results"]["failed_checks"]:
            yield failed["check_id"], Path(failed["file_path"]).stem


def excused() -> set[Finding]:
    """The findings that k8s/checkov.yaml lists; a line without a reason is ignored."""
    listed = yaml.safe_load((ROOT / "k8s" / "checkov.yaml").read_text("utf-8"))
    return {(check, place) for check, entry in listed.items() if entry["reason"] for place in entry["where"]}


def main(checkov: str) -> None:
    """Compare; exit 1 with both kinds of difference."""
    with tempfile.TemporaryDirectory() as folder:
        render(Path(folder))
        problems = set(findings(checkov, Path(folder)))
    wrong = [f"{check} in {place}: not excused" for check, place in sorted(problems - excused())]
    wrong += [f"{check} in {place}: excused, and not found any more" for check, place in sorted(excused() - problems)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
