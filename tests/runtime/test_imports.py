"""What a process imports: a data plane with rules alone loads no library of another part."""

from __future__ import annotations

import subprocess
import sys

UNUSED = "numpy onnxruntime google.protobuf grpc redis asyncpg opentelemetry mcp alembic"
"""Of the semantic layer, Envoy's gRPC, other stores, traces, MCP and migrations."""


def test_a_data_plane_imports_what_it_needs() -> None:
    """These libraries cost memory and time at each start."""
    code = f"import sys, sidecar.runtime.app; print(*[name for name in {UNUSED!r}.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""
