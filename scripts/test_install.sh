#!/usr/bin/env bash
# Tests of install_libtorch.sh and of the shim's Makefile, with small fake archives of the real layout, a real pip without network, and a
# local server. Each test is a function whose name states what is tested. An argument selects tests: test_install.sh zip
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
python=$(python3 -c "import sys; print(sys.executable)") || exit 1 # the binary, not a version manager's wrapper

"$python" "$here/fakes/fake_archives.py" "$work/www" || exit 1
exec 3< <(exec "$python" "$here/fakes/range_server.py" "$work/www" "$work/requests")
server=$!
read -r port <&3
www=http://127.0.0.1:$port
wheels=$work/www/wheels

# The results do not depend on the caller's environment. The default URL of the zip refuses connections at once.
unset LIBTORCH CXX PYTHON XDG_DATA_HOME GOTRAINER_LIBTORCH_SHA256 "${!PIP_@}"
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$wheels GOTRAINER_LIBTORCH_SUMS=$wheels/sums GOTRAINER_LIBTORCH_URL=http://127.0.0.1:1/none.zip

# install ARGS...: installs into $home, with the output in $out and the exit status in $status.
install() {
  out=$(GOTRAINER_HOME=$home "$here/install_libtorch.sh" "$@" 2>&1)
  status=$?
}
fail() {
  [ "$failed" = yes ] || printf '%s\n' "--- status $status:" "$out" "---"
  printf 'expectation: %s\n' "$*"
  failed=yes
}
succeeds() { [ "$status" = 0 ] || fail "expected success"; }
fails_saying() { # PATTERN...: also checks that nothing is installed
  [ "$status" != 0 ] || fail "expected failure"
  for pattern in "$@"; do grep -q -e "$pattern" <<<"$out" || fail "expected words: $pattern"; done
  [ ! -e "$home/libtorch-2.11.0-cpu" ] || fail "a failed install left $home/libtorch-2.11.0-cpu"
}
says() { grep -q -e "$1" <<<"$out" || fail "expected words: $1"; }
exists() { for f in "$@"; do [ -e "$home/$f" ] || fail "missing: $f"; done; }
absent() { for f in "$@"; do [ ! -e "$home/$f" ] || fail "should not be there: $f"; done; }
# pretend COMMAND BODY: puts a stand-in for a command first on PATH, for this test.
pretend() {
  mkdir -p "$home.bin"
  printf '#!/bin/sh\n%s\n' "$2" >"$home.bin/$1"
  chmod +x "$home.bin/$1"
  PATH=$home.bin:$PATH
}
# only_tools NAME...: restricts PATH to these and to what the script always needs.
only_tools() {
  mkdir -p "$home.tools"
  for t in bash env uname dirname basename mkdir rm mv ln cat sed awk cut grep head sort paste find df du mktemp chmod sha256sum getconf flock cp ldd true curl "$@"; do
    p=$(type -P "$t") && ln -s "$p" "$home.tools/$t"
  done
  PATH=$home.tools
}
# A fake df, so that the results do not depend on free disk space; the archives here are small.
mkdir "$work/bin"
printf '#!/bin/sh\necho header; echo "/dev/x 90000000 0 90000000 0%% /"\n' >"$work/bin/df"
chmod +x "$work/bin/df"
PATH=$work/bin:$PATH
cpu=libtorch-2.11.0-cpu

test_wheel_install_takes_only_what_the_cpu_needs() {
  install
  succeeds
  exists $cpu/lib/libtorch_cpu.so $cpu/lib/libc10.so $cpu/lib/libgomp.so.1 $cpu/lib/libcudart.so.13 $cpu/include/ATen/ATen.h \
    $cpu/include/c10/util/python_stub.h $cpu/share/native_functions.yaml $cpu/share/LICENSE
  absent $cpu/lib/libtorch_cuda.so $cpu/lib/libc10_cuda.so $cpu/lib/libtorch.so $cpu/lib/libtorch_python.so $cpu/raw download
  [ "$(find "$home" -maxdepth 1 -name '.staging*')" = "" ] || fail "staging folder left"
}
test_cuda_install_has_both_halves_and_lives_beside() {
  install
  install --cuda
  succeeds
  exists $cpu/lib/libtorch_cpu.so libtorch-2.11.0-cu130/lib/libtorch_cpu.so libtorch-2.11.0-cu130/lib/libtorch_cuda.so \
    libtorch-2.11.0-cu130/lib/libcudnn.so.9 libtorch-2.11.0-cu130/include/cuda_runtime_api.h
}
test_second_run_does_nothing_and_says_so_in_one_line() {
  install
  touch "$home/$cpu/mine"
  PIP_FIND_LINKS=$work/nowhere install
  succeeds
  says 'already installed'
  [ "$(wc -l <<<"$out")" = 1 ] || fail "more than one line"
  exists $cpu/mine
}
test_changed_table_installs_again() {
  install
  touch "$home/$cpu/mine"
  marker=$home/$cpu/.installed
  sed -i 's/^sums=./sums=z/' "$marker"
  install
  succeeds
  absent $cpu/mine $cpu.old
}
test_wrong_checksum_is_refused_and_the_good_files_are_kept() {
  sed '/torch-/s/ [0-9a-f]\{64\} / 00000000000000000000000000000000000000000000000000000000000000ff /' "$wheels/sums" >"$home.sums"
  tac "$home.sums" >"$home.sums2" # so that the good wheels come first
  GOTRAINER_LIBTORCH_SUMS=$home.sums2 install
  fails_saying 'checksum of torch-2.11.0' 'expected SHA-256 0*ff, found [0-9a-f]\{64\}' 'the file was removed'
  exists download/nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
  install
  succeeds
  says 'have nvidia_cuda_runtime'
}
test_damaged_download_is_fetched_again() {
  mkdir -p "$home/download"
  echo rubbish >"$home/download/torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl"
  install
  succeeds
  says 'downloading torch-2.11.0'
}
test_wheel_that_pip_cannot_find_is_named() {
  PIP_FIND_LINKS=$work/nowhere install
  fails_saying 'pip could not download torch==2.11.0 for linux-x86_64' 'LIBTORCH'
}
test_missing_pip_is_named_with_the_way_out() {
  only_tools g++
  install
  fails_saying 'no Python with pip' 'apt-get install python3-pip'
}
test_missing_compiler_is_named_before_anything_is_downloaded() {
  only_tools python3
  install
  fails_saying 'no C++ compiler' 'g++'
  absent download
}
test_libs_only_asks_for_no_compiler() {
  only_tools
  PYTHON=$python install --libs-only
  succeeds
}
test_old_compiler_is_named() {
  pretend oldc++ 'exit 1'
  CXX=oldc++ install
  fails_saying 'oldc++ does not know -std=c++20'
}
test_too_little_room_is_told_in_numbers() {
  pretend df 'echo header; echo "/dev/x 1000000 990000 10240 99% /"'
  install
  fails_saying 'not enough room in .*: 1200 MB needed, 10 MB free'
}
# shellcheck disable=SC2016 # the stand-in's own $1
test_wrong_architecture_is_named() {
  pretend uname 'case $1 in -s) echo Linux ;; *) echo riscv64 ;; esac'
  install
  fails_saying 'no libtorch 2.11.0 is published for Linux on riscv64'
}
test_another_platform_is_installed_with_its_cross_compiler() {
  pretend aarch64-linux-gnu-g++ 'cat >/dev/null'
  install --platform=linux-aarch64
  succeeds
  says 'downloading torch-2.11.0-cp311-cp311-manylinux_2_28_aarch64.whl'
  install --paths --platform=linux-aarch64
  says 'CXX=aarch64-linux-gnu-g++'
  says 'MACHINE=aarch64'
  install
  [ "$status" != 0 ] || fail "expected failure"
  says 'holds libtorch for linux-aarch64; this would replace it by that for linux-x86_64'
}
test_missing_cross_compiler_is_named() {
  only_tools python3 tr
  install --platform=linux-aarch64
  fails_saying 'aarch64-linux-gnu-g++, the C++ compiler for linux-aarch64, was not found' 'apt-get install g++-aarch64-linux-gnu'
  absent download
}
test_unknown_platform_is_named() {
  install --platform=windows
  fails_saying 'unknown platform windows; expected linux-x86_64 or linux-aarch64'
}
# shellcheck disable=SC2016
test_cuda_on_macos_is_refused() {
  pretend uname 'case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac'
  install --cuda
  fails_saying 'no CUDA on macOS'
}
test_other_c_library_is_named() {
  pretend getconf 'exit 1'
  install
  fails_saying 'not glibc'
}
test_old_glibc_is_named() {
  pretend getconf 'echo glibc 2.9'
  install
  fails_saying 'glibc is 2.9; the libtorch binaries need 2.28'
}
test_folder_that_cannot_be_written_is_named() {
  touch "$home"
  install
  fails_saying 'cannot be written' 'GOTRAINER_HOME'
  rm "$home"
}
test_blank_in_the_path_is_refused() {
  home="$home a"
  install
  fails_saying 'a blank in the path'
}
test_a_relative_path_is_refused() {
  LIBTORCH=some/libtorch install
  fails_saying 'LIBTORCH=some/libtorch is not an absolute path' 'export LIBTORCH=/'
}
test_unknown_option_is_refused() {
  install --gpu
  fails_saying 'unknown option --gpu' 'usage:'
}
test_killed_while_unpacking_then_run_again() {
  pretend killer "case \"\$*\" in *unpack.py*nvidia*) kill -9 \$PPID ;; *) exec $python \"\$@\" ;; esac"
  PYTHON=killer install
  [ "$status" = 137 ] || fail "expected to be killed"
  absent $cpu
  install
  succeeds
  says 'have torch-2.11.0'
  [ "$(find "$home" -maxdepth 1 -name '.staging*')" = "" ] || fail "staging folder left"
}
test_two_at_once_do_the_work_once() {
  GOTRAINER_HOME=$home "$here/install_libtorch.sh" >"$home.first" 2>&1 &
  install
  wait $!
  first=$? out="$out
$(cat "$home.first")"
  succeeds
  [ "$first" = 0 ] || fail "the other run failed: $first"
  [ "$(grep -c 'is installed in' <<<"$out")" = 1 ] || fail "expected one installation"
  exists $cpu/lib/libc10.so
}
test_zip_is_preferred_where_it_answers_and_its_sum_is_told() {
  GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install
  succeeds
  says 'SHA-256 of the zip is [0-9a-f]\{64\}'
  exists $cpu/lib/libtorch_cpu.so $cpu/lib/libgomp-abc.so.1 $cpu/include/ATen/ATen.h $cpu/share/build-version
  absent $cpu/lib/libtorch.so
}
test_cuda_takes_the_wheels_for_their_headers_though_the_zip_answers() {
  GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install --cuda
  succeeds
  exists libtorch-2.11.0-cu130/include/cuda_runtime_api.h
}
test_zip_with_its_right_sum() {
  GOTRAINER_LIBTORCH_SHA256=$(sha256sum "$work/www/libtorch.zip" | cut -d ' ' -f 1) GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install --zip
  succeeds
}
test_zip_with_a_wrong_sum_is_refused() {
  GOTRAINER_LIBTORCH_SHA256=00 GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install
  fails_saying 'checksum of .*libtorch.zip: expected SHA-256 00, found'
}
test_zip_download_goes_on_where_it_stopped() {
  mkdir -p "$home/download"
  head -c 1000 "$work/www/libtorch.zip" >"$home/download/libtorch-2.11.0-cpu-linux-x86_64.zip.part"
  : >"$work/requests"
  GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install
  succeeds
  [ "$(cat "$work/requests")" = "/libtorch.zip bytes=1000-" ] || fail "requests: $(cat "$work/requests")"
}
test_zip_download_that_was_complete_but_not_renamed() {
  mkdir -p "$home/download"
  cp "$work/www/libtorch.zip" "$home/download/libtorch-2.11.0-cpu-linux-x86_64.zip.part"
  GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install
  succeeds
}
test_zip_of_another_version_is_refused() {
  GOTRAINER_LIBTORCH_URL=$www/old.zip install
  fails_saying 'holds libtorch 2.6.0; expected 2.11.0'
}
test_zip_that_is_damaged_is_refused() {
  head -c 150000 "$work/www/libtorch.zip" >"$work/www/cut.zip"
  GOTRAINER_LIBTORCH_URL=$www/cut.zip install
  fails_saying 'cannot be unpacked'
}
test_zip_is_unpacked_without_python() {
  only_tools g++ unzip
  GOTRAINER_LIBTORCH_URL=$www/libtorch.zip install
  succeeds
  exists $cpu/lib/libtorch_cpu.so $cpu/include/ATen/ATen.h
  absent $cpu/lib/libtorch.so
}
test_zip_that_does_not_answer_fails_only_if_it_was_demanded() {
  install --zip
  fails_saying 'does not answer'
  install
  succeeds
  says 'taking the wheels instead'
}
test_LIBTORCH_is_used_where_it_is() {
  "$python" -m zipfile -e "$wheels"/torch-*x86_64.whl "$home.env"
  mkdir -p "$home.env/nvidia/cu13/lib"
  touch "$home.env/nvidia/cu13/lib/libcudart.so.13"
  LIBTORCH=$home.env/torch install
  succeeds
  absent $cpu download
  [ "$(readlink "$home/libtorch-external/lib/libtorch_cpu.so")" = "$home.env/torch/lib/libtorch_cpu.so" ] || fail "no link to libtorch_cpu.so"
  exists libtorch-external/lib/libcudart.so.13
  touch "$home/libtorch-external/lib/libcgotorch-1234.so"
  LIBTORCH=$home.env/torch install
  succeeds
  exists libtorch-external/lib/libcgotorch-1234.so # the shim stays
}
test_LIBTORCH_that_is_no_libtorch_is_refused() {
  mkdir -p "$home.env/lib"
  LIBTORCH=$home.env install
  fails_saying 'has no lib/libtorch_cpu.so'
  LIBTORCH=$home.env/none install
  fails_saying 'is not a folder'
}
test_LIBTORCH_of_another_version_is_refused() {
  "$python" -m zipfile -e "$work/www/old.zip" "$home.env"
  LIBTORCH=$home.env/libtorch install
  fails_saying 'holds version 2.6.0; gotrainer needs 2.11.0'
}
test_paths_are_for_make_and_install_nothing() {
  install --paths
  succeeds
  [ "$out" = "INCLUDE=$home/$cpu/include
LIB=$home/$cpu/lib
OUT=$home/$cpu/lib
SCHEMAS=$home/$cpu/share/native_functions.yaml" ] || fail "other paths"
  LIBTORCH=/x install --paths
  says "^OUT=$home/libtorch-external/lib$"
  absent .
}
# fake_compiler makes a compiler that writes its output slowly, in two lines, and fails if an object has any other number of lines.
# It logs the sources that it compiles in $home/compiled, one per line: those that its input includes.
fake_compiler() {
  mkdir -p "$home"
  cat >"$home/cxx" <<END
#!/usr/bin/env bash
compiled=$home/compiled
END
  cat >>"$home/cxx" <<'END'
case "$*" in
*-fsyntax-only*) exit 0 ;;
*--version*) echo "fake compiler 1" && exit 0 ;;
esac
out='' inputs=()
while [ $# -gt 0 ]; do
  case $1 in
  -o) out=$2 && shift ;;
  *.cc | *.c | *.o) inputs+=("$1") ;;
  -) while IFS='"' read -r _ source _; do inputs+=("$source"); done ;;
  esac
  shift
done
for i in "${inputs[@]}"; do
  case $i in *.o) [ "$(wc -l <"$i")" = 2 ] || { echo "$i is not whole, or was written by two" >&2; exit 1; } ;; esac
done
case ${inputs[0]} in *.cc) printf '%s\n' "${inputs[@]}" >>"$compiled" ;; esac
printf '%s\n' "half of ${inputs[*]##*/}" >"$out"
sleep 0.2
echo "end of object" >>"$out"
END
  chmod +x "$home/cxx"
}
# clone FOLDER: makes another checkout of the shim's sources, newer than everything built so far.
clone() { mkdir -p "$1" && cp -R "$here/../cgotorch" "$1/"; }
# build CHECKOUT [VARIABLE...]: builds the shim into $home/out. $compiled lists the compiled sources.
build() {
  mkdir -p "$home/out"
  : >"$home/compiled"
  out=$(make --silent --no-print-directory -C "$1/cgotorch/src" -j4 INCLUDE=/none LIB=/none OUT="$home/out" CXX="$home/cxx" "${@:2}" 2>&1)
  status=$?
  compiled=$(sort "$home/compiled" | paste -s -d ' ' -)
}
# The shim's sources: cudagraph.cc and nccl.cc belong to a separate library that needs CUDA's headers.
all_sources() { (cd "$here/../cgotorch/src" && printf '%s\n' *.cc | grep -vE '^(cudagraph|nccl)\.' | sort | paste -s -d ' ' -); }
# unit_of SOURCE: the sources that are compiled together with it.
unit_of() { sed -n '/^UNITS/s/.*= //p' "$here/../cgotorch/src/Makefile" | tr ' ' '\n' | grep -w "${1%.cc}" | tr '+' '\n' | sed 's/$/.cc/' | paste -s -d ' ' -; }
compiles() { [ "$compiled" = "$1" ] || fail "expected to compile \"$1\", not \"$compiled\""; }
the_shim() { find "$home/out" -maxdepth 1 -name 'libcgotorch-*'; }
test_two_builds_of_the_shim_at_once_do_not_meet() {
  fake_compiler
  mkdir -p "$home/out"
  make --silent --no-print-directory -C "$here/../cgotorch/src" -j4 INCLUDE=/none LIB=/none OUT="$home/out" CXX="$home/cxx" >"$home/first" 2>&1 &
  first=$!
  sleep 0.1
  build "$here/.."
  succeeds
  wait "$first" || fail "the first build failed: $(cat "$home/first")"
  [ "$(wc -l <"$(the_shim)")" = 2 ] || fail "the shim is not whole, or was written by two"
  [ -z "$(find "$home/out" -name '*.tmp')" ] || fail "temporary files are left"
}
# shellcheck disable=SC2016 # the stand-in's own arguments
test_a_link_that_another_builder_has_just_made_is_no_failure() {
  fake_compiler
  pretend mv "case \$3 in */.build/*) ;; *) ln -f \"\$2\" \"\$3\" ;; esac; exec $(type -P mv) \"\$@\""
  build "$here/.."
  succeeds
  [ -f "$(the_shim)" ] || fail "no library"
  [ -z "$(find "$home/out" -name '*.tmp')" ] || fail "temporary files are left"
}
test_a_second_checkout_compiles_nothing() {
  fake_compiler
  build "$here/.."
  succeeds
  compiles "$(all_sources)"
  says '^building libcgotorch'
  clone "$home/second"
  build "$home/second"
  succeeds
  compiles ""
  [ -z "$out" ] || fail "nothing was built, and it says something"
}
test_a_changed_source_is_compiled_however_old_it_is_and_other_units_are_not() {
  fake_compiler
  build "$here/.."
  clone "$home/second"
  echo '// changed' >>"$home/second/cgotorch/src/memory.cc"
  touch -d @0 "$home/second/cgotorch/src/memory.cc"
  build "$home/second"
  succeeds
  compiles "$(unit_of memory.cc)"
  says '^libcgotorch is built'
  build "$here/.." # its objects are still there
  succeeds
  compiles ""
  says '^libcgotorch is built'
}
test_a_changed_header_flag_or_compiler_compiles_everything() {
  fake_compiler
  build "$here/.."
  clone "$home/second"
  echo '// changed' >>"$home/second/cgotorch/ct.h"
  build "$home/second"
  succeeds
  compiles "$(all_sources)"
  build "$here/.." SANITIZE=address
  succeeds
  compiles "$(all_sources)"
  build "$here/.."
  compiles ""
  sed -i 's/fake compiler 1/fake compiler 2/' "$home/cxx"
  build "$here/.."
  succeeds
  compiles "$(all_sources)"
}
test_a_new_hash_compiles_only_the_unit_of_the_source_that_tells_it() {
  fake_compiler
  build "$here/.."
  clone "$home/second"
  sed -i 's/CT_ABI ".*"/CT_ABI "0123456789ab"/' "$home/second/cgotorch/zz_abi.h"
  build "$home/second"
  succeeds
  compiles "$(unit_of context.cc)"
  [ -f "$home/out/libcgotorch-0123456789ab.so" ] || fail "no library of that name"
  [ "$(the_shim | wc -l)" = 2 ] || fail "the other checkout's library is gone"
}
test_a_removed_library_is_there_again_without_compiling() {
  fake_compiler
  build "$here/.."
  rm "$home"/out/libcgotorch*
  build "$here/.."
  succeeds
  compiles ""
  [ -f "$(the_shim)" ] || fail "no library"
}
test_make_setup_says_what_it_built_and_what_comes_next() {
  fake_compiler
  setup() { GOTRAINER_HOME=$home make --no-print-directory -C "$here/.." setup CXX="$home/cxx" 2>&1; }
  out=$(setup)
  status=$?
  succeeds
  says '^building libcgotorch'
  says "^libcgotorch is built: $home/$cpu/lib/libcgotorch-[0-9a-f]*\.so\$"
  says '^next: go run ./examples/digits'
  out=$(setup)
  status=$?
  succeeds
  ! grep -q -e '^next:' <<<"$out" || fail "a second run, which other targets begin with, says it again"
}
test_a_failed_build_of_the_shim_leaves_no_temporary_file() {
  fake_compiler
  sed -i '2i case "$*" in *tensor-*) for a; do :; done; echo half >"$a"; exit 1 ;; esac' "$home/cxx"
  build "$here/.."
  [ "$status" != 0 ] || fail "expected failure"
  [ -z "$(find "$home/out" -name '*.tmp' -o -name '*tensor-*.o' -o -name 'libcgotorch-*')" ] || fail "something half made is left"
}

ran=0 bad=0
for t in $(compgen -A function test_ | grep -e "${1:-}"); do
  failed=no
  # A subshell per test, so that its PATH, home and variables are not shared.
  if (home=$work/$t out='' status=none && "$t" && [ "$failed" = no ]); then
    echo "ok    $t"
  else
    echo "FAIL  $t"
    bad=$((bad + 1))
  fi
  ran=$((ran + 1))
done
echo "install_libtorch.sh: $((ran - bad)) of $ran tests passed"
[ "$bad" = 0 ] && [ "$ran" -gt 0 ]
