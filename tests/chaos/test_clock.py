"""The system clock jumps: limits and timeouts are not affected, a key's expiry is.

A preloaded shared library replaces the C library's clock in the sidecar's process and adds an offset from a file.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx2 as httpx
import pytest
from chaos.load import process_settings
from support import SidecarProcess

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t id, struct timespec *at) {
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, at);
  char text[32] = {0};
  int file = id == CLOCK_REALTIME ? open(getenv("CLOCK_JUMP"), O_RDONLY) : -1;
  if (file >= 0) {
    if (read(file, text, 31) > 0) at->tv_sec += atol(text);
    close(file);
  }
  return result;
}
"""
DAY = 86_400


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jump of a day in either direction refills no limit and blocks nothing; a key expires by wall-clock time."""
    jump, library = tmp_path / "jump", tmp_path / "clock.so"
    (tmp_path / "clock.c").write_text(CLOCK, "ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    jump.write_text("0", "ascii")
    limits = {"rate": "2/hour", "burst": 3}
    settings = process_settings(tmp_path, "echo://", limits=limits)
    running = SidecarProcess(tmp_path, settings, launcher=("env",))  # a preloaded library needs a start of its own
    with monkeypatch.context() as patched:
        patched.setenv("LD_PRELOAD", str(library))
        patched.setenv("CLOCK_JUMP", str(jump))
        running.start()
    lasting, short = running.new_key("lasting")["key"], running.new_key("short", "--expires", "1h")["key"]

    def scan(key: str) -> int:
        body, headers = {"prompt": "How long do I boil an egg?"}, {"X-API-Key": key}
        return httpx.post(f"{running.base}/api/v1/prompt/scan", json=body, headers=headers, timeout=10).status_code

    assert [scan(lasting) for _ in range(4)] == [200, 200, 200, 429]
    assert scan(short) == 200
    jump.write_text(str(DAY), "ascii")
    assert [scan(lasting), scan(short)] == [429, 401]
    jump.write_text(str(-DAY), "ascii")
    assert [scan(lasting), scan(short)] == [429, 200]
    assert running.stop() == 0
