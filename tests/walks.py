"""The walks of a newcomer: a copy of the tree, a network of its own, and terminals into which blocks are pasted."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from pages import ROOT

NAMESPACE = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
SECONDS = 300
LEFT_OUT = (".git", ".venv", "build", "dist", "node_modules", "*.db", "__pycache__", ".*_cache", ".hypothesis")
READY = "127.0.0.1:8081/ready"
SERVING = ("make run", " serve")
"""How the command lines of servers end."""

# With job control the first terminal is a process group that Ctrl+C reaches as a whole, as at a keyboard.
DRIVER = """set -mu
ip link set lo up
{first}
(set +m; exec bash --norc -s) < second.sh > second.out 2> second.err; echo $? > second.code
{third}
if [ -s first.sh ]; then kill -INT -- -$terminal; wait $terminal; echo $? > first.code; fi
"""
FIRST = """bash --norc -s < {name}.sh > first.out 2>&1 & terminal=$!
for _ in $(seq 1200); do curl -sf -o /dev/null {ready} && break; kill -0 $terminal || exit 9; sleep 0.1; done
"""
CTRL_C = "kill -INT -- -$terminal; wait $terminal; mv first.out before.out\n"


class Walk(NamedTuple):
    """What was seen: the output of the first terminal (before and after a Ctrl+C), and all of the second one."""

    before: str
    first: str
    code: int
    out: str
    errors: str


def serves(line: str) -> bool:
    """Whether a command keeps its terminal until it is stopped."""
    return line.endswith(SERVING)


def clone(folder: Path) -> Path:
    """A copy of the tree as `git clone` makes it, with the `.venv` that `make run` installs."""
    made = folder / "prompt-sidecar"
    shutil.copytree(ROOT, made, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    venv.create(made / ".venv", with_pip=False)
    (packages,) = (made / ".venv").glob("lib/python3*/site-packages")
    (packages / "copy.pth").write_text("\n".join([str(made), *site.getsitepackages()]), "utf-8")
    program = made / ".venv" / "bin" / "sidecar"
    program.write_text(f"#!{made}/.venv/bin/python\nfrom sidecar.cli.main import main\n\nmain()\n", "utf-8")
    program.chmod(0o755)
    (made / ".venv" / ".installed").touch()
    return made


def environment(home: Path) -> Mapping[str, str]:
    """Of a fresh login: nothing of these tests."""
    system = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.startswith(sys.prefix))
    return {"HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{system}", "LANG": "C.UTF-8"}


def shell(folder: Path, text: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A script in a network of its own; whatever it starts ends with it."""
    command = [*NAMESPACE, "bash", "--norc", "-c", text]
    return subprocess.run(
        command,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment(home),
        timeout=SECONDS - 20,
        check=False,
    )


def walk(folder: Path, first: str, second: str, again: str = "") -> Walk:
    """`first` in a terminal until it is ready, `second` in another one; then Ctrl+C in the first, and `again` there."""
    for name, text in (("first", first), ("again", again), ("second", second)):
        (folder / f"{name}.sh").write_text(text, "utf-8")
    third = CTRL_C + FIRST.format(name="again", ready=READY) if again else ""
    start = FIRST.format(name="first", ready=READY) if first else ""
    done = shell(folder, DRIVER.format(first=start, third=third), folder.parent)
    assert done.returncode == 0, (done.stderr, seen(folder, "first.out"))
    before, last = seen(folder, "before.out"), seen(folder, "first.out")
    code, ended = seen(folder, "second.code"), seen(folder, "first.code")
    assert code.strip() == "0", f"{seen(folder, 'second.out')}\n{seen(folder, 'second.err')}\n{last}"
    return Walk(before, last, int(ended or 0), seen(folder, "second.out"), seen(folder, "second.err"))


def seen(folder: Path, name: str) -> str:
    """What is in a file of the walk, if it is there."""
    file = folder / name
    return file.read_text("utf-8", "replace") if file.exists() else ""


def require_namespaces() -> None:
    """Skip where no network of one's own can be made."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("a network of its own is made by unshare")
    tried = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, timeout=60, check=False)
    if tried.returncode:
        pytest.skip(f"no network of its own: {tried.stderr.decode().strip()}")
