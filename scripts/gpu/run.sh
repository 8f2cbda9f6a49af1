#!/usr/bin/env bash
# Tests and measurements on a GPU, in stages: bash .gpu/run.sh [--dry] STAGE...
# The README.md next to pack.sh, which makes this folder, describes the stages. Standard output gets a summary, and $OUT/N.log
# everything. --dry runs a small part of every stage, on the CPU, to check that it works.
#   DEVICE (cuda), PYTHON (python3; needs torch 2.11, transformers, accelerate), OUT (/tmp/out), ROUNDS (3)
#   ROWS, IMPLS: for stages 3 and 4; LEVERS: for stage 5; LIBTORCH: used instead of PYTHON's torch
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3} OUT=${OUT:-/tmp/out} dry=''
if [ "${1:-}" = --dry ]; then dry=1 && shift; fi
device=${DEVICE:-$([ -n "$dry" ] && echo cpu || echo cuda)}
[ $# -gt 0 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$OUT"

# Each version of the archive is unpacked once.
pack=${TMPDIR:-/tmp}/gotrainer-gpu-$(sha256sum "$here/pack.tar.xz" | cut -c1-12) || exit 1
if [ ! -e "$pack/whole" ]; then
  mkdir -p "$pack"
  "$python" - "$here/pack.tar.xz" "$pack" <<'P' || exit 1
import sys, tarfile
tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="data")
P
  chmod +x "$pack"/bin/* "$pack"/tests/*.test
  touch "$pack/whole"
fi
LIBTORCH=${LIBTORCH:-$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')} || exit 1
export LIBTORCH GOTRAINER_LIB=$pack/lib GOTRAINER_REQUIRE_TORCH=1 PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

failed=0 logs=() asides=()
step() { # NAME LIMIT COMMAND...: the stage continues if it fails
  local name=$1 limit=$2 begin=$SECONDS rc=0
  shift 2
  echo "== $name" >>"$log"
  timeout "$limit" "$@" >>"$log" 2>&1 || rc=$?
  echo "== $name: $([ $rc = 0 ] && echo ok || echo "exit status $rc"), $((SECONDS - begin)) s" | tee -a "$log"
  [ $rc = 0 ] || failed=1
  return $rc
}
# Steps that do not measure time run side by side, each into a log of its own; together waits for them.
aside() { # COMMAND...: a step, or a function that makes one
  logs+=("$log.${#logs[@]}")
  log=${logs[-1]} "$@" &
  asides+=($!)
}
together() {
  local pid
  for pid in "${asides[@]}"; do wait "$pid" || failed=1; done
  cat "${logs[@]}" >>"$log"
  rm "${logs[@]}"
  logs=() asides=()
}
probe() { step "gpuprobe $*" 240 "$pack/bin/gpuprobe" -device "$device" ${dry:+-tiny} "$@"; }
levers() { step "levers $*" 560 env PEERS="$pack/peers" "$python" "$here/levers.py" ${dry:+--dry} "$@"; }
# Tests that need the sources of a checkout, or that create installations.
checkout='EveryTensorArgumentIsKeptAlive|LoaderSaysWhatIsMissing|WithoutADriverTheCUDALibraries|EveryOperatorOfTheTable|TheTableOfNamesIsTrue'
# shellcheck disable=SC2329 # called by aside
tests() { # PACKAGE [FLAGS]: a package's tests, in the folder with its files
  local p=$1
  shift
  [ -e "$pack/tests/${p//\//_}.test" ] || return 0
  step "tests of $p" 300 env -C "$pack/tests/tree/$p" "$pack/tests/${p//\//_}.test" -test.timeout 280s -test.skip "$checkout" ${dry:+-test.short} "$@"
}
compare() { # ROWS IMPLS DRY-ROWS: a dry run has one row of each kind and one peer, to finish in a minute or two
  if [ ! -d "$pack/data" ]; then
    echo "== the data sets were not packed (pack.sh DEST DATA): no comparison"
    return 0
  fi
  local rounds=${ROUNDS:-3} threads=1,2
  [ "$device" = cpu ] || threads=$(nproc)
  [ -z "$dry" ] || { rounds=1 threads=1; set -- "$3" raw_tuned; }
  step "bench_compare" 575 "$pack/bin/bench_compare" -bench "$pack/bin/bench" -peers "$pack/peers" -python "$python" -data "$pack/data" \
    -device "$device" -threads "$threads" -rounds "$rounds" ${dry:+-tiny} -rows "${ROWS:-$1}" -impls "${IMPLS:-$2}"
  grep -E '^\||ms a step$' "$log" # also the single runs, since the table comes only at the end
}
lever() { # WORKLOAD FLAGS: gotrainer with these flags, some of which do not exist on the CPU
  [ -d "$pack/data" ] || return 0
  case "$device $*" in "cpu "*-graphs* | "cpu "*-prefetch*) return 0 ;; esac
  step "bench $*" 60 "$pack/bin/bench" -data "$pack/data" -device "$device" ${dry:+-tiny} -workload "$@"
  grep '^{' "$log" | tail -1 | cut -c1-400
}
stage() {
  case $1 in
  1) # loading and correct results
    levers env
    step doctor 60 "$pack/bin/gotrainer" doctor
    for p in "ops parity" resume fp16 threads determinism broken; do
      # shellcheck disable=SC2086
      aside probe $p
    done
    aside step conformance 200 "$pack/bin/conformance" -device "$device" "$pack/cases"
    for p in torch torch/cuda amp optim nn trainer/engine models/bert models/crnn; do aside tests "$p"; done
    together
    ;;
  2) # what takes the whole machine: waiting, memory, copies, and what the GPU can do at best
    probe waits oom growth upload attention
    levers roofs ctc sync sdpa
    ;;
  3) compare "$([ "$device" = cpu ] && echo bert_base,bert_small || echo bert_base,bert_base_b128,bert_small)" raw_tuned,hf,hf_tuned bert_small ;;
  4) compare mlp,mlp_tiny,crnn,crnn_bf16 raw,raw_tuned,hf mlp_tiny,crnn ;;
  6) # the gain from each of gotrainer's GPU options
    local o row gib=1073741824
    for row in mlp_tiny mlp; do
      for o in "" -prefetch "-graphs 8" "-graphs 8 -prefetch" "-dataset-on-device $gib" "-dataset-on-device $gib -graphs 8"; do
        # shellcheck disable=SC2086
        lever "$row" $o
      done
    done
    for row in ${dry:+-} crnn bert_small bert_base; do
      [ "$row" != - ] || break # too slow on the CPU
      for o in "" -prefetch "-graphs 8" "-graphs 8 -prefetch"; do
        # shellcheck disable=SC2086
        lever "$row" $o
      done
    done
    ;;
  5) # the gain from each lever; LEVERS is split into words
    # shellcheck disable=SC2086
    levers ${LEVERS:-bert mlp crnn gemm fp8}
    ;;
  *) echo "there is no stage $1; want 1 to 6" >&2 && exit 2 ;;
  esac
}
for n in "$@"; do
  log=$OUT/$n.log begin=$SECONDS
  : >"$log"
  stage "$n"
  grep -hE '^\{"(device|lever)"' "$log" | cut -c1-900
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.used,clocks.sm,temperature.gpu --format=csv,noheader
  fi
  echo "stage $n took $((SECONDS - begin)) s"
done
exit $failed
