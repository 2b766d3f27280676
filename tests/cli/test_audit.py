"""Twin of sidecar/cli/audit.py."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ed25519
from dashboard import log_row
from util.test_signatures import PEM, PUBLIC, private_pem

from sidecar.cli.audit import audit
from sidecar.storage import Store
from sidecar.util.signatures import encode, read_key


async def run(folder: Path, *arguments: str) -> Result:
    """One command, in a thread of its own because it runs its own event loop."""
    return await asyncio.to_thread(CliRunner().invoke, audit, [*arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings with a key, whose public half lies beside it."""
    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "audit.pem").write_bytes(private_pem(key))
    (tmp_path / "audit.pub").write_bytes(key.public_key().public_bytes(PEM, PUBLIC))
    values = {
        "store": {"url": f"sqlite:///{tmp_path}/sidecar.db"},
        "audit": {"key_file": str(tmp_path / "audit.pem")},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")
    return tmp_path / "config.yaml"


async def test_verify_names_what_was_done_and_what_is_not_covered(config: Path, tmp_path: Path) -> None:
    """Exit code 0 for a whole store and 1 after a change, as text and as JSON; the public key is enough."""
    signer = read_key((tmp_path / "audit.pem").read_bytes())
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db", signer=signer)
    await store.decisions.add([log_row(1), log_row(2)])
    whole = await run(tmp_path, "verify", "--config", str(config), "--key", str(tmp_path / "audit.pub"))
    assert whole.exit_code == 0, whole.output
    assert "decisions: 2 rows in 2 checkpoints" in whole.output
    assert "not covered:" in whole.output
    heads = await run(tmp_path, "verify", "--config", str(config), "--json")
    (tmp_path / "heads.json").write_text(heads.stdout, "utf-8")
    async with store._database.write() as connection:
        await connection.exec_driver_sql("DELETE FROM decisions WHERE status = 200")
        await connection.exec_driver_sql("DELETE FROM checkpoints WHERE number = 2")
    await store.close()
    assert (await run(tmp_path, "verify", "--config", str(config))).exit_code == 0
    cut = await run(tmp_path, "verify", "--config", str(config), "--heads", str(tmp_path / "heads.json"), "--json")
    problems = [problem for chain in json.loads(cut.stdout)["chains"] for problem in chain["problems"]]
    assert (cut.exit_code, problems) == (1, ["checkpoints 2 to 2: deleted, an earlier run saw them"])


async def test_a_receipt_is_verified_offline(config: Path, tmp_path: Path) -> None:
    """With the public key alone; another receipt has exit code 1, another file 2."""
    signer = read_key((tmp_path / "audit.pem").read_bytes())
    assert signer.sign
    payload = b'{"id": "dec_1"}'
    genuine = f"{encode(payload)}.{encode(signer.sign(payload))}"
    public = str(tmp_path / "audit.pub")
    done = await run(tmp_path, "receipt", genuine, "--key", public)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"id": "dec_1"})
    assert (await run(tmp_path, "receipt", f"{encode(b'{}')}.{encode(b'x')}", "--key", public)).exit_code == 1
    (tmp_path / "short").write_bytes(b"short")
    assert (await run(tmp_path, "receipt", genuine, "--key", str(tmp_path / "short"))).exit_code == 2


async def test_without_a_key_there_is_nothing_to_verify(tmp_path: Path) -> None:
    """It says which setting is missing."""
    (tmp_path / "config.yaml").write_text(f"store: {{url: 'sqlite:///{tmp_path}/sidecar.db'}}", "utf-8")
    done = await run(tmp_path, "verify", "--config", str(tmp_path / "config.yaml"))
    assert done.exit_code == 2
    assert "audit.key_file" in done.output
