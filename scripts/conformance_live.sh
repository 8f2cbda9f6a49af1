#!/usr/bin/env bash
# Records training runs of transformers' Trainer, Accelerate's loop and the raw PyTorch loop on this machine, and replays them with gotrainer bit for bit.
#
#   scripts/conformance_live.sh [NAME...]      all specs of scripts/conformance/specs.json, or the named ones
#
# PYTHON     the Python to create the environment with (3.11 or newer); default: python3
# VENV       an existing environment to use; nothing is installed into it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=.build/conformance

python=${VENV:-$work/venv}/bin/python
if [ -z "${VENV:-}" ]; then
  requirements=scripts/conformance/requirements.txt
  if ! cmp -s "$requirements" "$work/venv/requirements.txt"; then
    echo "installing PyTorch and transformers into $work/venv: a few minutes and gigabytes, once"
    mkdir -p "$work"
    "${PYTHON:-python3}" -m venv "$work/venv"
    "$python" -m pip install --quiet --requirement "$requirements"
    cp "$requirements" "$work/venv/requirements.txt"
  fi
fi
rm -rf "$work/cases"
PYTHONDONTWRITEBYTECODE=1 "$python" scripts/conformance/record.py "$work/cases" "$@"
go run ./internal/conformance -traces "$work/traces" "$work/cases"
