#!/usr/bin/env bash
# Compares the golden files with PyTorch, and Go with the golden files. Changes nothing in the checkout.
#
#   scripts/golden_check.sh               uses $PYTHON, by default python3
#   PYTHON=venv/bin/python scripts/golden_check.sh
#
# 1. With a Python that has torch 2.11, all scripts in testdata folders run in a copy of these folders, and their output is compared
#    with the checked-in files bit for bit. A script that is not repeatable (it says why: # golden-check: ...), or whose libraries
#    are missing, is skipped with a message.
#    Without such a Python this part is skipped, and the last line says so.
# 2. The golden tests run and count their comparisons. A table shows the number of cases in each family, how many of them are
#    bitwise equal on this CPU, and why the others are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
TORCH=2.11
LEAST=1200 # cases; fewer means that tests are missing
export PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# has_torch succeeds if $PYTHON imports the torch that wrote the golden files.
has_torch() {
	"$PYTHON" -c "import sys, torch; sys.exit(not torch.__version__.startswith('$TORCH.'))" 2>"$work/why" >&2
}

# same compares two files, by their values where the bytes differ between runs: the metadata of a safetensors file is in random order,
# and the old format of torch.save names storages by their addresses.
same() {
	cmp -s "$1" "$2" && return
	[[ $1 == *.pt ]] && "$PYTHON" - "$1" "$2" <<'END' && return
import sys, torch


def values(v):
    if isinstance(v, torch.Tensor):
        return v.dtype, v.shape, bytes(v.contiguous().flatten().view(torch.uint8).tolist())
    if isinstance(v, dict):
        return [(k, values(x)) for k, x in v.items()]
    return [type(v), *map(values, v)] if isinstance(v, (list, tuple)) else v


old, new = (values(torch.load(f, weights_only=True)) for f in sys.argv[1:])
sys.exit(old != new)
END
	[[ $1 == *.safetensors ]] && "$PYTHON" - "$1" "$2" <<'END'
import json, struct, sys


def parts(path):
    raw = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:end])
    metadata = header.pop("__metadata__", {})
    return metadata, {n: (t["dtype"], t["shape"], raw[end + t["data_offsets"][0]:end + t["data_offsets"][1]]) for n, t in header.items()}


(old_metadata, old), (new_metadata, new) = map(parts, sys.argv[1:])
different = [n for n in sorted(old.keys() | new.keys()) if old.get(n) != new.get(n)] + ["metadata"] * (old_metadata != new_metadata)

if different:
    sys.exit("  " + " ".join(different[:8]) + (f" and {len(different) - 8} more" if len(different) > 8 else ""))
END
}

# recompute runs the scripts in the copy and compares their output.
recompute() {
	local files=$work/files script folder name why log=$work/log ran=0 left=0 equal=0 different=0 untouched=0
	git ls-files -z -- '*/testdata/*' '*.py' cgotorch/src/mkl_intel.c >"$files" # including shared scripts, and the source of the library that scripts/golden/pins.py builds
	mkdir "$work/copy"
	tar -c --null -T "$files" | tar -x -C "$work/copy"
	find "$work/copy" -type f -exec touch -d @0 {} + # newer files are those that the scripts wrote
	touch -d @1 "$work/old"
	while IFS= read -r script; do
		folder=$(dirname "$script") name=$(basename "$script")
		why=$(sed -n 's/^# golden-check: //p' "$script")
		if [[ $why ]]; then
			left=$((left + 1))
			echo "left out: $script: $why"
			continue
		fi
		if (cd "$work/copy/$folder" && "$PYTHON" "$name") >"$log" 2>&1; then
			ran=$((ran + 1))
		elif grep -q '^ModuleNotFoundError' "$log"; then
			left=$((left + 1))
			echo "left out: $script: $(grep '^ModuleNotFoundError' "$log")"
		elif grep -q '^other numbers: ' "$log"; then
			left=$((left + 1))
			echo "left out: $script: $(grep '^other numbers: ' "$log")"
		else
			bad=1
			echo "FAILED: $script"
			tail -n 5 "$log" | sed 's/^/  /'
		fi
	done < <(git ls-files -- '*/testdata/*.py')
	while IFS= read -r -d '' name; do
		case $name in *.py | *.go | *.c) continue ;; esac
		if [[ $work/copy/$name -ot $work/old ]]; then
			untouched=$((untouched + 1))
		elif same "$name" "$work/copy/$name"; then
			equal=$((equal + 1))
		else
			different=$((different + 1))
			bad=1
			echo "DIFFERENT: $name: what its script writes now is not what is checked in"
		fi
	done <"$files"
	while IFS= read -r -d '' name; do # a new file is a case that was not checked in
		[[ -e ${name#"$work/copy/"} ]] || {
			bad=1
			echo "NEW: ${name#"$work/copy/"}: written by its script, but not checked in"
		}
	done < <(find "$work/copy" -type f -print0)
	echo "golden files: $ran scripts ran again, $left left out; $equal files hold the same to the last bit, $different differ; $untouched were not written by any of these scripts"
}

if has_torch; then
	echo "comparing with torch $("$PYTHON" -c 'import torch; print(torch.__version__)') of $(command -v "$PYTHON")"
	recompute
	compared="PyTorch computed the golden files again"
else
	compared="$PYTHON has no torch $TORCH ($(tail -n 1 "$work/why")), so Go was compared with the checked-in golden files only; PYTHON=... names another"
fi

# The packages whose tests count comparisons, computed so that none is forgotten.
mapfile -t packages < <(go list -test -f '{{.ImportPath}} {{.Deps}}' ./... | sed -n '/internal\/goldencount[] ]/s/\.test .*//p' | grep -v /internal/)
GOTRAINER_GOLDEN_COUNT=$work/count GOTRAINER_REQUIRE_TORCH=1 go test -count=1 "${packages[@]}" >"$work/tests" || {
	bad=1
	grep -v '^ok' "$work/tests"
}
touch "$work/count"
go run ./internal/goldencount/report -least "$LEAST" "$work/count" || bad=1
echo "$compared"
exit "$bad"
