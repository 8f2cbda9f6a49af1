#!/usr/bin/env bash
# Installs libtorch, PyTorch's C++ library, for one user. --help describes what it does and where it installs.
#
# Steps: choose -> already installed? -> lock -> enough disk space? -> fetch -> verify -> unpack into a staging folder -> rename.
# Until the last step nothing that a program could load changes, so the script may be killed at any time and run again.
# It must run on bash 3.2, the version of macOS.
set -euo pipefail

readonly VERSION=2.11.0
readonly LAYOUT=1   # increases when this script takes other files from the same archives
readonly CUDA=cu130 # the CUDA build that the package index has for this version
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly scripts
readonly SUMS=${GOTRAINER_LIBTORCH_SUMS:-$scripts/libtorch.sums}

usage() {
  cat <<EOF
usage: install_libtorch.sh [--cuda] [--zip | --wheel] [--libs-only] [--keep-downloads] [--platform=P] [--paths]

Installs libtorch $VERSION (libraries and headers) into
  $root/libtorch-$VERSION-<cpu or $CUDA>
and nothing anywhere else. Needs no root. A second run finds its work done. What is taken, in this order:

  1. \$LIBTORCH, if set: an unpacked libtorch or a Python environment's site-packages/torch. Used where it is.
  2. The official zip, if download.pytorch.org answers. No checksum is published for it: its sum is printed, its own
     check sums and its version are verified, and GOTRAINER_LIBTORCH_SHA256 is, if you know it. With --cuda only
     where there is no Python with pip: it lacks CUDA's headers, so there are neither CUDA graphs nor NCCL.
  3. The wheels that pip downloads, checked against scripts/libtorch.sums. They are unpacked, never imported.

  --cuda            the CUDA build ($CUDA): 2.4 GB to download, 3.6 GB on disk. Without it: 0.55 GB and 0.5 GB.
  --zip, --wheel    only the official zip, only the wheels
  --platform=P      for machines of another kind, linux-x86_64 or linux-aarch64: to build programs for them here, with a
                    cross compiler (\$CXX, else aarch64-linux-gnu-g++). Wants a GOTRAINER_HOME of its own.
  --libs-only       do not ask for the C++ compiler that building libcgotorch needs afterwards
  --keep-downloads  leave the archives in $root/download
  --paths           install nothing; print INCLUDE=, LIB= and OUT= for cgotorch/src/Makefile, SCHEMAS= for cgotorch/gen

  GOTRAINER_HOME             the install root (now $root)
  LIBTORCH                   see 1.
  GOTRAINER_LIBTORCH_URL     another address for the zip, such as a mirror; GOTRAINER_LIBTORCH_SHA256: its sum
  GOTRAINER_LIBTORCH_SUMS    another table of wheels and their sums
  PYTHON                     the Python whose pip downloads the wheels (any 3.9 or later)
  CXX                        the C++ compiler
EOF
}

say() { printf 'libtorch: %s\n' "$*" >&2; }
# die PROBLEM [REMEDY]...: prints one line for the problem and one for each remedy, then exits.
die() {
  printf 'libtorch: error: %s\n' "$1" >&2
  shift
  for remedy in "$@"; do printf '  -> %s\n' "$remedy" >&2; done
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# shellcheck source=scripts/libtorch_fetch.sh
. "$scripts/libtorch_fetch.sh" # defines need_space, zip_url, reachable, fetch_zip, fetch_wheels

# ---- choose ----------------------------------------------------------------------------------------------------------

install_root() {
  if [ -n "${GOTRAINER_HOME:-}" ]; then
    printf '%s\n' "$GOTRAINER_HOME"
  elif [ -n "${XDG_DATA_HOME:-}" ]; then
    printf '%s/gotrainer\n' "$XDG_DATA_HOME"
  elif [ -n "${HOME:-}" ]; then
    printf '%s/.local/share/gotrainer\n' "$HOME"
  else
    die "neither GOTRAINER_HOME nor HOME is set, so there is no place to install to" "export GOTRAINER_HOME=/some/folder"
  fi
}

detect_platform() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo linux-x86_64 ;;
    Linux-aarch64 | Linux-arm64) echo linux-aarch64 ;;
    Darwin-arm64) echo macos-arm64 ;;
    *) die "no libtorch $VERSION is published for $(uname -s) on $(uname -m); expected Linux x86_64, Linux aarch64 or macOS arm64" \
      "build libtorch from source and set LIBTORCH to its folder" ;;
  esac
}

# check_cross PLATFORM: fails unless --platform can name it on this machine.
check_cross() {
  case "$1" in
    linux-x86_64 | linux-aarch64) ;;
    *) die "unknown platform $1; expected linux-x86_64 or linux-aarch64" ;;
  esac
  [ "$(uname -s)" = Linux ] || die "--platform $1 wants a Linux machine to build on, which this $(uname -s) is not"
}

# cross_compiler: prints the C++ compiler for another platform than this machine's, or nothing for its own.
cross_compiler() {
  [ "$platform" = "$(detect_platform)" ] || printf '%s\n' "${CXX:-${platform#linux-}-linux-gnu-g++}"
}

# check_same_platform: fails rather than replace an install for another platform.
check_same_platform() {
  local found
  found=$(sed -n 's/^platform=//p' "$target/.installed" 2>/dev/null) || true
  [ -z "$found" ] || [ "$found" = "$platform" ] ||
    die "$target holds libtorch for $found; this would replace it by that for $platform" "set GOTRAINER_HOME to another folder"
}

check_libc() {
  [[ $platform == linux-* ]] && [ -z "$cross" ] || return 0
  local found
  found=$(getconf GNU_LIBC_VERSION 2>/dev/null) ||
    die "this system's C library is not glibc; the libtorch binaries need glibc 2.28 or later" "use a glibc system, such as Debian 11 or later"
  found=${found#glibc }
  if [ "$(printf '%s\n' 2.28 "$found" | sort -V | head -n 1)" != 2.28 ]; then
    die "glibc is $found; the libtorch binaries need 2.28 or later" "use a newer system, such as Debian 11, Ubuntu 20.04 or RHEL 8"
  fi
}

check_compiler() {
  local cxx=${cross:-${CXX:-}}
  if [ -n "$cross" ]; then
    have "$cxx" || die "$cxx, the C++ compiler for $platform, was not found" "apt-get install g++-$(tr _ - <<< "${platform#linux-}")-linux-gnu, or set CXX" \
      "--libs-only installs libtorch alone"
  elif [ -z "$cxx" ]; then
    for cxx in c++ g++ clang++; do have "$cxx" && break; done
  fi
  have "$cxx" || die "no C++ compiler found (looked for \$CXX, c++, g++, clang++); building libcgotorch needs one" \
    "apt-get install g++, dnf install gcc-c++ or xcode-select --install" "--libs-only installs libtorch alone"
  echo 'int main() {}' | "$cxx" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null ||
    die "$cxx does not know -std=c++20, which libtorch's headers need" "install g++ 11 or clang 14 or later, or set CXX" "--libs-only installs libtorch alone"
}

find_python() {
  local p
  for p in "${PYTHON:-python3}" python3 python; do
    if have "$p" && "$p" -m pip --version >/dev/null 2>&1; then
      echo "$p"
      return
    fi
  done
  return 1
}

# ---- unpack and check ------------------------------------------------------------------------------------------------

# unpack ARCHIVE FOLDER PATTERN...: skips libraries that only Python needs, and CUDA's in the CPU variant.
unpack() {
  local archive=$1 into=$2
  shift 2
  local without=('*/lib/*python*' '*/lib/libshm*' '*/lib/libtorch.so' '*/lib/*global_deps*' '*/lib/*.a' '*/lib/nvshmem_*mpi*')
  [ "$variant" = cpu ] && without+=('*/lib/*cuda.so' '*/lib/*cuda_linalg*' '*/lib/*nvrtc*' '*/lib/*nvshmem*')
  if [ -n "$python" ]; then
    "$python" -I "$scripts/unpack.py" "$archive" "$into" "$@" --without "${without[@]}"
  else
    unzip -qq -o "$archive" "$@" -x "${without[@]}" -d "$into" 2>&1 | { grep -v '^caution:' >&2 || true; } || [ "${PIPESTATUS[0]}" -eq 11 ] # 11: a pattern matched nothing
  fi || die "$archive cannot be unpacked (the reason is above)" "remove it and run this again"
}

# stage_archives: fills $stage with lib/, include/ and share/ from $archives.
stage_archives() {
  local raw="$stage/raw" archive lib
  mkdir -p "$raw" "$stage/lib" "$stage/share"
  for archive in "${archives[@]}"; do
    say "unpacking $(basename "$archive")"
    case $(basename "$archive") in
      torch-*) unpack "$archive" "$raw" 'torch/lib/*.so*' 'torch/lib/*.dylib' 'torch.libs/*' 'torch/.dylibs/*' 'torch/include/*' \
        'torchgen/packaged/ATen/native/*' 'torch-*.dist-info/*LICENSE*' 'torch-*.dist-info/*NOTICE*' ;;
      nvidia_cuda_runtime-* | nvidia_cuda_crt-* | nvidia_cuda_cupti-*)
        case $variant in
          cpu) unpack "$archive" "$raw" '*/lib/libcudart.so*' '*/lib/libcupti.so*' ;;
          *) unpack "$archive" "$raw" 'nvidia/*/lib/*.so*' 'nvidia/*/include/*' ;;
        esac
        ;;
      nvidia_*) unpack "$archive" "$raw" 'nvidia/*/lib/*.so*' ;;
      *) unpack "$archive" "$raw" 'libtorch/lib/*' 'libtorch/include/*' 'libtorch/build-*' ;;
    esac
  done
  # One flat folder: every library looks for its dependencies in its own folder ($ORIGIN).
  for lib in "$raw"/torch/lib "$raw"/torch.libs "$raw"/torch/.dylibs "$raw"/nvidia/*/lib "$raw"/libtorch/lib; do
    [ -d "$lib" ] && find "$lib" -type f -exec mv {} "$stage/lib/" \;
  done
  for lib in "$raw"/torch/include "$raw"/libtorch/include; do
    [ -d "$lib" ] && mv "$lib" "$stage/include"
  done
  for lib in "$raw"/nvidia/*/include; do
    [ -d "$lib" ] && cp -R "$lib/." "$stage/include/"
  done
  find "$raw" \( -name '*.yaml' -o -ipath '*dist-info*LICENSE*' -o -ipath '*dist-info*NOTICE*' -o -name 'build-*' \) -type f -exec mv {} "$stage/share/" \;
  rm -rf "$raw"
}

# header_version INCLUDE: prints the version in libtorch's own header.
header_version() {
  local h v
  for h in "$1/torch/headeronly/version.h" "$1/torch/csrc/api/include/torch/version.h"; do
    [ -f "$h" ] || continue
    v=$(sed -nE 's/^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+).*/\2/p' "$h" | paste -s -d . -)
    [ -n "$v" ] && echo "$v" && return
  done
  echo unknown
}

# check_tree FOLDER: fails unless it is a libtorch that can be linked and loaded.
check_tree() {
  local dir=$1 suffix=so missing f
  [ "$platform" = macos-arm64 ] && suffix=dylib
  for f in "lib/libtorch_cpu.$suffix" "lib/libc10.$suffix" include/ATen/ATen.h include/c10/macros/Macros.h; do
    [ -f "$dir/$f" ] || die "$dir has no $f, so it is not a complete libtorch" "expected a folder with lib/ and include/, such as an unpacked libtorch or site-packages/torch"
  done
  # Libraries that ldd cannot find would be missing at run time too. (ldd also fails on a library of another platform, which does not matter here.)
  if [ "$suffix" = so ] && have ldd; then
    missing=$({ ldd "$dir"/lib/libtorch_c*.so 2>/dev/null || true; } | awk '/not found/ { print $1 }' | sort -u | paste -s -d ' ' -)
    [ -z "$missing" ] || die "the libraries in $dir/lib need others that are not there: $missing" "install them, or install libtorch again: rm -r $dir"
  fi
}

# ---- use an existing libtorch, or install one ------------------------------------------------------------------------

# use_external: copies nothing. The shim's folder gets links to $LIBTORCH's libraries, because its rpath is $ORIGIN.
use_external() {
  local found lib dir="$root/libtorch-external/lib"
  [ -d "$LIBTORCH" ] || die "LIBTORCH=$LIBTORCH is not a folder" "unset it, or set it to an unpacked libtorch or a site-packages/torch"
  check_tree "$LIBTORCH"
  found=$(header_version "$LIBTORCH/include")
  [ "$found" = "$VERSION" ] || die "LIBTORCH=$LIBTORCH holds version $found; gotrainer needs $VERSION" "unset LIBTORCH to have $VERSION installed"
  mkdir -p "$dir"
  find "$dir" -type l -exec rm -f {} +
  for lib in "$LIBTORCH"/lib/*.so* "$LIBTORCH"/lib/*.dylib "$LIBTORCH"/../nvidia/*/lib/*.so*; do
    [ -f "$lib" ] && ln -sf "$(cd "$(dirname "$lib")" && pwd)/$(basename "$lib")" "$dir/"
  done
  say "using libtorch $found where it is: $LIBTORCH (links in $dir)"
}

install_own() {
  local python="" archives=() url=none source=wheel need=1200 stage want=$want
  [ "$variant" = cpu ] || need=7000
  python=$(find_python) || python=""
  # CUDA graphs and NCCL are compiled with CUDA's headers, which the wheels contain and the zip does not
  [ "$variant" = cpu ] || [ "$want" != any ] || [ -z "$python" ] || want=wheel

  if [ "$want" != wheel ]; then
    url=$(zip_url)
    if [ "$url" = none ]; then
      [ "$want" != zip ] || die "there is no official libtorch zip for $platform" "leave --zip out: the wheels are taken"
    elif ! reachable "$url"; then
      [ "$want" != zip ] || die "$url does not answer" "check the network (curl or wget is needed), or leave --zip out: the wheels are taken"
      say "$url does not answer; taking the wheels instead"
      url=none
    elif [ -z "$python" ] && ! have unzip; then
      die "neither unzip nor a Python with pip is here to unpack $url" "apt-get install unzip"
    fi
  fi
  need_space "$need"
  if [ "$url" != none ]; then
    source=zip
    fetch_zip "$url"
  else
    [ -n "$python" ] || die "no Python with pip was found (looked for \$PYTHON, python3, python); it downloads the wheels" \
      "apt-get install python3-pip, or python3 -m ensurepip --user" "or set LIBTORCH to a libtorch that you have"
    fetch_wheels "$python"
  fi

  stage=$(mktemp -d "$root/.staging-XXXXXX")
  # shellcheck disable=SC2064 # expanded now on purpose
  trap "rm -rf '$stage'" EXIT
  stage_archives
  check_tree "$stage"
  local found
  found=$(header_version "$stage/include")
  [ "$found" = "$VERSION" ] || die "the archive holds libtorch $found; expected $VERSION" "remove $downloads and run this again"
  fingerprint "$source" >"$stage/.installed"

  rm -rf "$target.old"
  [ ! -e "$target" ] || mv "$target" "$target.old"
  mv "$stage" "$target"
  chmod 755 "$target"
  rm -rf "$target.old"
  [ "$keep" = yes ] || rm -rf "$downloads"
  say "libtorch $VERSION ($variant, from the $source) is installed in $target"
}

# fingerprint SOURCE: the content of the marker file of a finished install. An install with another marker is out of date.
fingerprint() {
  printf 'version=%s\nlayout=%s\nvariant=%s\nplatform=%s\nsource=%s\n' "$VERSION" "$LAYOUT" "$variant" "$platform" "$1"
  if [ "$1" = wheel ]; then
    printf 'sums=%s\n' "$(awk -v p="$platform" -v v="$variant" '$1 == p && ($2 == "cpu" || $2 == v) { print $3 }' "$SUMS" | paste -s -d , -)"
  fi
}

installed() {
  local marker="$target/.installed"
  [ -f "$marker" ] || return 1
  case $want in
    wheel) [ "$(cat "$marker")" = "$(fingerprint wheel)" ] ;;
    zip) [ "$(cat "$marker")" = "$(fingerprint zip)" ] ;;
    *) [ "$(cat "$marker")" = "$(fingerprint wheel)" ] || [ "$(cat "$marker")" = "$(fingerprint zip)" ] ;;
  esac
}

lock() {
  if ! have flock; then # as on macOS
    say "no flock here: do not run two installs at once"
    return
  fi
  exec 9>"$root/.lock"
  flock -n 9 && return
  say "another install is running; waiting for it"
  flock 9
}

main() {
  local root platform="" cross variant=cpu want=any compiler=yes keep=no paths=no target downloads
  root=$(install_root)
  while [ $# -gt 0 ]; do
    case $1 in
      --cuda) variant=$CUDA ;;
      --zip) want=zip ;;
      --wheel) want=wheel ;;
      --libs-only) compiler=no ;;
      --platform=*)
        platform=${1#*=}
        check_cross "$platform"
        ;;
      --keep-downloads) keep=yes ;;
      --paths) paths=yes ;;
      -h | --help)
        usage
        return
        ;;
      *)
        usage >&2
        die "unknown option $1"
        ;;
    esac
    shift
  done
  # make splits its variables at spaces, so such a folder would fail later with a less clear message.
  case "$root${LIBTORCH:-}" in *[[:space:]]*) die "a blank in the path $root${LIBTORCH:+ or $LIBTORCH}; make cannot handle it" "set GOTRAINER_HOME to a path without blanks" ;; esac
  case $root in /*) ;; *) die "the install root $root is not an absolute path" "export GOTRAINER_HOME=$PWD/$root" ;; esac
  case ${LIBTORCH:-/} in /*) ;; *) die "LIBTORCH=$LIBTORCH is not an absolute path" "export LIBTORCH=$PWD/$LIBTORCH" ;; esac
  target="$root/libtorch-$VERSION-$variant" downloads="$root/download"

  [ -n "$platform" ] || platform=$(detect_platform)
  cross=$(cross_compiler)
  if [ "$paths" = yes ]; then
    [ -z "$cross" ] || printf 'CXX=%s\nMACHINE=%s\n' "$cross" "${platform#linux-}"
    if [ -n "${LIBTORCH:-}" ]; then
      printf 'INCLUDE=%s\nLIB=%s\nOUT=%s\n' "$LIBTORCH/include" "$LIBTORCH/lib" "$root/libtorch-external/lib"
      printf 'SCHEMAS=%s\n' "$(dirname "$LIBTORCH")/torchgen/packaged/ATen/native/native_functions.yaml"
    else
      printf 'INCLUDE=%s\nLIB=%s\nOUT=%s\n' "$target/include" "$target/lib" "$target/lib"
      printf 'SCHEMAS=%s\n' "$target/share/native_functions.yaml"
    fi
    return
  fi

  if [ "$platform" = macos-arm64 ] && [ "$variant" != cpu ]; then die "there is no CUDA on macOS" "leave --cuda out"; fi
  case $platform in
    linux-aarch64) say "note: $platform has been tested on an emulated CPU only" ;;
    macos-arm64) say "note: $platform is written for but has not been tested" ;;
  esac
  check_same_platform
  [ "$compiler" = no ] || check_compiler
  mkdir -p "$root" 2>/dev/null && [ -w "$root" ] || die "$root cannot be written" "set GOTRAINER_HOME to a folder of your own"

  if [ -n "${LIBTORCH:-}" ]; then
    lock
    use_external
    return
  fi
  if installed; then
    say "libtorch $VERSION ($variant) is already installed in $target"
    return
  fi
  check_libc
  lock
  if installed; then # by the run that held the lock
    say "libtorch $VERSION ($variant) is already installed in $target"
    return
  fi
  rm -rf "$root"/.staging-* "$downloads/tmp" # left by a run that was killed
  mkdir -p "$downloads"
  install_own
}

main "$@"
