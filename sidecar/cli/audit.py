"""`sidecar audit`: verifies the checkpoints over the scan log and the audit trail, and receipts of decisions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from sidecar.cli import output
from sidecar.cli.admin import open_store
from sidecar.cli.common import CONFIG, JSON, async_command, emit
from sidecar.config.signing import read_verifier
from sidecar.decision_log.receipts import verified
from sidecar.errors import ConfigError
from sidecar.storage.schema import audit as audit_table
from sidecar.storage.schema import decisions
from sidecar.storage.verification import Verification, lines
from sidecar.util import json

NOT_COVERED = (
    "not covered: checkpoints and rows deleted together at the end of a chain, unless --heads names an earlier head; "
    "rows from before the first checkpoint; a chain begun anew, once retention has deleted "
    "its beginning; all other tables (keys, accounts, exceptions)"
)
BEGUN_OVER_ROWS = (
    "begun over rows: so does the first chain of a database that was in use (then give --accept-earlier-rows once, and "
    "keep the output for --heads), and also a chain that began anew after all checkpoints had been deleted"
)
PUBLIC_KEY = click.option(
    "--key",
    "key_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The public key, or the secret of an HMAC [default: audit.key_file]",
)


@click.group(short_help="Verify the signed records of the store, and receipts.")
def audit() -> None:
    """Verify what `audit.key_file` signs: checkpoints over the scan log and the audit trail, and receipts."""


@audit.command("verify", short_help="Verify the checkpoints of the store.")
@PUBLIC_KEY
@click.option(
    "--heads",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output of an earlier run with --json: what it saw must still be there.",
)
@click.option(
    "--accept-earlier-rows",
    is_flag=True,
    help="Accept a chain that began over rows: audit.key_file was set for a database that was in use.",
)
@JSON
@CONFIG
@async_command
async def verify(
    key_file: Path | None, heads: Path | None, accept_earlier_rows: bool, as_json: bool, config_file: Path | None
) -> int:
    """Name every row that was changed, deleted, inserted or reordered. Exit code 0: none, 1: some, 2: error."""
    earlier = _heads(heads) if heads else {}
    async with open_store(config_file, signs=False) as (store, settings):
        path = key_file or settings.audit.key_file
        if path is None:
            raise ConfigError("audit.key_file", ["no key is configured, so nothing is signed; or name one by --key"])
        signer = read_verifier(path)
        reports = [
            await Verification(store.checkpoints, table, signer).run(
                earlier.get(table.name), accepts_rows=accept_earlier_rows
            )
            for table in (decisions, audit_table)
        ]
    if as_json:
        emit({"ok": not any(report.problems for report in reports), "chains": [asdict(report) for report in reports]})
        return 1 if any(report.problems for report in reports) else 0
    for report in reports:
        for line in lines(report):
            output.out.print(line, markup=False)
        for problem in report.problems:
            output.out.print(f"[red]problem[/]  {report.chain}: {escape(problem)}")
        if report.unlisted:
            output.out.print(f"[red]problem[/]  {report.chain}: and {report.unlisted} more")
    if any(report.begun_over for report in reports):
        output.out.print(BEGUN_OVER_ROWS, style="dim", markup=False)
    output.out.print(NOT_COVERED, style="dim", markup=False)
    return 1 if any(report.problems for report in reports) else 0


@audit.command("receipt", short_help="Verify a receipt of a decision, offline.")
@click.argument("receipt", metavar="RECEIPT")
@click.option(
    "--key", "key_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", required=True,
    help="The public key, or the secret of an HMAC.",
)  # fmt: skip
def receipt_command(receipt: str, key_file: Path) -> None:
    """Show what a receipt (x-sidecar-receipt) says, if this key signed it. Exit code 0: it did, 1: it did not."""
    try:
        payload = verified(read_verifier(key_file, "--key"), receipt)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if payload is None:
        output.err.print("This key did not sign this receipt.")
        raise click.exceptions.Exit(1)
    emit(payload)


def _heads(path: Path) -> dict[str, tuple[int, str]]:
    """Number and digest of each chain's head in an earlier report."""
    try:
        report: dict[str, Any] = json.loads(path.read_bytes())
        return {chain["chain"]: (int(chain["number"]), str(chain["head"])) for chain in report["chains"]}
    except (OSError, ValueError, LookupError, TypeError):
        raise ConfigError("--heads", [f"{path}: is no output of `sidecar audit verify --json`"]) from None
