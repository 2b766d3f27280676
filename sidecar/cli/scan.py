"""`sidecar scan`: one text, or files before a model reads them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from sidecar.cli import output
from sidecar.cli.common import CONFIG, JSON, async_command, emit, load_settings
from sidecar.cli.terminal import for_each, plain
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.file_scan.discovery import TextFile, find_files, is_error, path_name, read_file
from sidecar.file_scan.results import FileResult, Level, result_of
from sidecar.file_scan.sarif import sarif
from sidecar.file_scan.walk import FoundFile
from sidecar.policy import Policy
from sidecar.runtime.builder import open_scanner
from sidecar.scan.results import explanation, scan_result
from sidecar.scan.service import ScanService
from sidecar.types import Action, ScanRequest, Segment, Source

CONCURRENCY = 4
"""Files at a time."""
Format = Literal["text", "json", "sarif"]


@click.command("scan", short_help="Scan a text, or files and folders.")
@click.argument("texts", nargs=-1, required=True, metavar="TEXT | - | PATH...")
@click.option("--system-prompt", help="The application's system prompt, to detect its extraction by a TEXT.")
@click.option("--explain", is_flag=True, help="All findings, spans and layers of a TEXT.")
@click.option("--format", "shape", type=click.Choice(["text", "json", "sarif"]), help="Of the results of files.")
@click.option(
    "--fail-on",
    type=click.Choice(["block", "hint"]),
    default="block",
    show_default=True,
    help="Exit code 1 from here, for files.",
)
@click.option("--profile", help="Scan as for requests with this profile (setting `profiles`).")
@click.option("--agent-files", is_flag=True, help="Of folders only what coding agents read: AGENTS.md, skills, rules.")
@JSON
@CONFIG
@async_command
async def scan(
    texts: tuple[str, ...],
    shape: Format | None,
    fail_on: Level,
    profile: str | None,
    agent_files: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> int:
    """Scan one TEXT, standard input with "-", or the files and folders at PATH as untrusted text.

    An argument that is a file or a folder is a PATH. Exit code 0: allow, 1: block, 2: error.

    Below a folder those that tools keep for themselves, such as .git, .venv and node_modules, are not scanned.

    2 also stands for a file that was not scanned: larger than limits.body_bytes or unreadable, a folder that cannot be
    listed, and, if it was named or is text that coding agents read, a binary, a pipe, a link to nothing or out of the
    folder. Other binaries and such links are skipped and named; they change no exit code.
    """
    is_files = bool(shape or agent_files or len(texts) > 1 or (texts[0] != "-" and _exists(texts[0])))
    _refuse_unused(texts, shape, fail_on, as_json=as_json, is_files=is_files, **options)
    settings = load_settings(config_file)
    if profile not in {None, *settings.profiles}:
        raise click.UsageError(f"--profile: there is no profile {profile} (setting profiles).")
    settings = settings.of_profile(profile)
    if is_files:
        files = find_files(map(Path, texts), agent_files=agent_files)
        return await _scan_files(files, settings, shape or ("json" if as_json else "text"), fail_on)
    return await _scan_text(texts[0], settings, as_json=as_json, **options)


def _refuse_unused(
    texts: Sequence[str],
    shape: Format | None,
    fail_on: Level,
    *,
    as_json: bool,
    is_files: bool,
    explain: bool,
    system_prompt: str | None,
) -> None:
    """Raise `UsageError` for an option that would change nothing, since its user expects that it does."""
    if is_files and "-" in texts:
        raise click.UsageError('"-" is scanned alone, without --format and --agent-files.')
    if is_files and (explain or system_prompt is not None):
        raise click.UsageError("--explain and --system-prompt are for a TEXT, not for files.")
    if not is_files and fail_on != "block":
        raise click.UsageError("--fail-on is for files; a TEXT is blocked or allowed.")
    if as_json and shape not in {None, "json"}:
        raise click.UsageError(f"--json is --format json, not {shape}.")


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # longer than a path may be, or with a NUL
        return False


async def _scan_text(text: str, settings: Settings, *, as_json: bool, explain: bool, system_prompt: str | None) -> int:
    scan_request = ScanRequest((Segment(_read_stdin() if text == "-" else text),), system_prompt)
    async with open_scanner(settings, selftests=False) as built:
        verdict = await ScanService(built.engine, settings).scan(scan_request)
        if as_json:
            fields = explanation if explain else scan_result
            emit({**fields(verdict), **({"failure": verdict.failure} if verdict.failure else {})})
        else:
            output.show_verdict(verdict, built.policy, explain=explain)
    if verdict.failure:
        return 2
    return 1 if verdict.action is Action.BLOCK else 0


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("standard input cannot be read", [f"not UTF-8 at byte {error.start}"]) from None


async def _scan_files(files: Sequence[FoundFile], settings: Settings, shape: Format, fail_on: Level) -> int:
    async with open_scanner(settings, selftests=False) as built:
        results = await _results(files, ScanService(built.engine, settings), settings)
        if shape == "text":
            _show(results, built.policy)
        else:
            titles = {rule.id: rule.title for rule in built.policy.rules}
            emit(sarif(results, titles) if shape == "sarif" else {"files": [_values(one) for one in results]})
    if any(result.error for result in results):
        return 2
    return 1 if any(result.reaches(fail_on) for result in results) else 0


async def _results(files: Sequence[FoundFile], service: ScanService, settings: Settings) -> list[FileResult]:
    """A few at a time; the results are in the order of the files."""
    return await for_each("scanning", files, lambda found: _result(found, service, settings), CONCURRENCY)


async def _result(found: FoundFile, service: ScanService, settings: Settings) -> FileResult:
    file = TextFile(found.path, problem=found.problem)
    if found.problem is None:
        file = await asyncio.to_thread(read_file, found.path, settings.limits.body_bytes)
    if file.problem is not None:
        return FileResult(found.path, problem=file.problem, error=is_error(found, file.problem))
    segment = Segment(file.text, Source.UNTRUSTED, "file")
    threshold = settings.scan.sources.untrusted.threshold
    verdict = await service.scan(ScanRequest((segment,) if file.text.strip() else ()))
    return result_of(file, verdict, settings.scan.threshold if threshold is None else threshold)


def _values(result: FileResult) -> dict[str, Any]:
    """For `--format json`: no text of the file."""
    verdict = result.verdict
    return {
        "path": path_name(result.path),
        "action": verdict.action if verdict and not result.problem else None,
        "risk_score": verdict.risk_score if verdict else None,
        "threats": list(verdict.threats) if verdict else [],
        "not_scanned": result.problem,
        "findings": [
            {
                "rule": place.rule,
                "label": place.label,
                "score": place.score,
                "level": place.level,
                "line": place.start.line,
                "column": place.start.column,
                "end_line": place.end.line,
                "end_column": place.end.column,
            }
            for place in result.places
        ],
    }


def _show(results: Sequence[FileResult], policy: Policy) -> None:
    """A line for each finding, as compilers write it; the text of a file is not quoted."""
    titles = {rule.id: rule.title for rule in policy.rules}
    for result in results:
        name = plain(str(result.path))
        for place in result.places:
            colour = "red" if place.level == "block" else "yellow"
            title = plain(titles.get(place.rule, place.label))
            place_name = f"{name}:{place.start.line}:{place.start.column}"
            output.out.print(f"{place_name}: [{colour}]{place.level}[/] {place.score:.2f} {place.rule} {title}")
        if result.problem:
            output.err.print(f"{name}: not scanned: {plain(result.problem)}", style="red" if result.error else "dim")
    scanned = sum(result.problem is None for result in results)
    blocked = sum(result.reaches("block") for result in results)
    output.err.print(f"{scanned} files scanned, {blocked} to block, {len(results) - scanned} not scanned", style="dim")
