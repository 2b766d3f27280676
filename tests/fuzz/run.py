"""Fuzzes one target guided by coverage: `python tests/fuzz/run.py TARGET [--seconds 60] [--keep]`.

Needs atheris beside the project (`make fuzz` installs it into `build/fuzz`). What is found lies there as `crash-*`;
`--keep` writes what reaches most of the code with least bytes back to `corpus/TARGET.txt`, one Python literal a line.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "fuzz"
LONGEST = 2048
KEPT = 120
"""Inputs of one target that are kept in the project."""


def seeds(target: str) -> list[bytes]:
    """What the project keeps."""
    lines = (HERE / "corpus" / f"{target}.txt").read_text("ascii").splitlines()
    return [ast.literal_eval(line) for line in lines]


def spread(target: str) -> Path:
    """The kept inputs as files, as the fuzzer wants them, beside what it found earlier."""
    folder = BUILD / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (folder / f"kept-{number:03}").write_bytes(seed)
    return folder


def keep(target: str, folder: Path) -> None:
    """Merge the inputs down to those that each add something, and keep the shortest."""
    least = BUILD / f"{target}-least"
    least.mkdir(exist_ok=True)
    for old in least.iterdir():
        old.unlink()
    merge = [sys.executable, __file__, target, "--", "-merge=1", str(least), str(folder)]
    subprocess.run(merge, check=True)
    found = sorted((file.read_bytes() for file in least.iterdir()), key=lambda data: (len(data), data))[:KEPT]
    (HERE / "corpus" / f"{target}.txt").write_text("".join(f"{data!r}\n" for data in found), "ascii")


def fuzz(target: str, more: list[str]) -> None:
    """Hand over to libFuzzer, which ends the process."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(BUILD / "packages")]
    import atheris  # noqa: PLC0415 - installed there

    with atheris.instrument_imports(include=["sidecar"]):
        from fuzz.targets import TARGETS  # noqa: PLC0415 - instrumented

    TARGETS[target](b"")  # what is loaded once is no part of the time of an input
    # Merging starts a command line again, of which this is the first word.
    atheris.Setup([f"{sys.executable} {__file__} {target} --", *more], TARGETS[target])
    atheris.Fuzz()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("more", nargs="*", help="arguments of libFuzzer, after --")
    given = parser.parse_args()
    if given.more:
        fuzz(given.target, given.more)
    folder = spread(given.target)
    bounds = [f"-max_total_time={given.seconds}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048"]
    command = [sys.executable, __file__, given.target, "--", *bounds, f"-artifact_prefix={BUILD}/", str(folder)]
    subprocess.run(command, check=True)
    if given.keep:
        keep(given.target, folder)


if __name__ == "__main__":
    main()
