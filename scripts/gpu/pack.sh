#!/usr/bin/env bash
# Packs everything that run.sh needs on a GPU machine without Go into one archive: scripts/gpu/pack.sh [DEST [DATA]]
# DEST is a folder, by default .gpu, which git ignores; DATA is the folder of the data sets, as for make bench-compare.
# Run make setup CUDA=1 first, which also builds the CUDA half of the shim (graphs, NCCL). After make setup alone, that is left out.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
dest=${1:-$root/.gpu} data=${2:-${DATA:-$root/../shared/data}} limit=60
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
[ ! -d "$data" ] || data=$(cd "$data" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/lib" "$work/tests"
cd "$root"
export CGO_ENABLED=1

# The shim and its companion libraries, which must have been built from these sources.
abi=$(sed -n 's/^#define CT_ABI "\(.*\)"/\1/p' cgotorch/zz_abi.h)
out=$(scripts/install_libtorch.sh --paths --cuda | sed -n 's/^OUT=//p')
if [ ! -e "$out/libcgotorch_cuda-$abi.so" ]; then
  echo "pack.sh: $out has no libcgotorch_cuda-$abi.so, so this goes without graphs and NCCL: make setup CUDA=1 builds it" >&2
  out=$(scripts/install_libtorch.sh --paths | sed -n 's/^OUT=//p')
fi
[ -e "$out/libcgotorch-$abi.so" ] || { echo "pack.sh: $out has no libcgotorch-$abi.so: make setup builds it" >&2 && exit 1; }
cp "$out"/libcgotorch*-"$abi".so "$work/lib/"
strip --strip-unneeded "$work"/lib/*.so

go build -ldflags='-s -w' -o "$work/bin/" ./internal/bench ./internal/conformance ./internal/gpuprobe ./scripts/bench_compare ./cmd/gotrainer
for p in ${TESTS-torch torch/cuda amp optim nn trainer/engine models/bert models/crnn}; do
  go test -c -ldflags='-s -w' -o "$work/tests/${p//\//_}.test" "./$p"
  mkdir -p "$work/tests/tree/$p"
  [ ! -d "$p/testdata" ] || cp -R "$p/testdata" "$work/tests/tree/$p/"
done
cp -R scripts/bench_compare/peers "$work/peers"
cp -R internal/conformance/testdata/cases "$work/cases"
rm -rf "$work/peers/__pycache__"
if [ -d "$data" ]; then
  for d in mnist cn_plates mrpc models/bert_base_uncased_vocab; do
    mkdir -p "$(dirname "$work/data/$d")"
    cp -R "$data/$d" "$work/data/$d"
  done
else
  echo "pack.sh: there are no data sets in $data: stages 3 and 4 will say so" >&2
fi

cp scripts/gpu/run.sh scripts/gpu/levers.py "$dest/"
# -9 has a window of 64 MiB, large enough to find the code that the programs have in common.
tar -C "$work" --sort=name --owner=0 --group=0 -cf - . | xz "-${XZ:-9}" >"$dest/pack.new" # renamed when complete
mv "$dest/pack.new" "$dest/pack.tar.xz"
size=$(($(du -sb "$dest" | cut -f1) >> 20))
echo "$dest: $size MiB"
[ "$size" -lt "$limit" ] || { echo "pack.sh: that is more than $limit MiB; TESTS='torch trainer/engine' packs fewer tests" >&2 && exit 1; }
