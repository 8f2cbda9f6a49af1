#!/usr/bin/env bash
# cuda_headers.sh FOLDER: puts CUDA's headers into FOLDER/include, from two small wheels of libtorch.sums (2 MB) and NCCL's
# (200 MB, for one header), so that code that needs them compiles without CUDA and without the CUDA build of libtorch.
# Does nothing if they are already there.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
downloads=$1/download platform=linux-x86_64 variant=cu130 archives=() SUMS=$1/sums

say() { printf 'cuda headers: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
# shellcheck source=scripts/libtorch_fetch.sh
. "$scripts/libtorch_fetch.sh" # defines fetch_wheels

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "they are fetched on Linux x86-64 only"
mkdir -p "$downloads"
grep -E "^$platform .* nvidia_(cuda_(runtime|crt)|nccl_cu13)-" "$scripts/libtorch.sums" >"$SUMS.new"
if [ -d "$1/include" ] && cmp -s "$SUMS.new" "$SUMS"; then exit; fi
mv "$SUMS.new" "$SUMS"
fetch_wheels "${PYTHON:-python3}"
rm -rf "$1/raw" "$1/include" "$1/include.new"
for archive in "${archives[@]}"; do "${PYTHON:-python3}" -I "$scripts/unpack.py" "$archive" "$1/raw" 'nvidia/*/include/*' --without '*.a'; done
mkdir "$1/include.new"
for headers in "$1"/raw/nvidia/*/include; do cp -R "$headers/." "$1/include.new"; done
mv "$1/include.new" "$1/include" # atomic
rm -rf "$1/raw" "$downloads"
