# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154,SC2034 # the caller sets root, downloads, platform, variant, archives and SUMS
#
# How install_libtorch.sh downloads and verifies its archives: disk space, the official zip, the wheels. Each fetch leaves the verified
# archives in $archives, and in $downloads what the next run can reuse.

sha256() {
  if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# need_space MEGABYTES: fails if the disk has less space; what is already downloaded counts.
need_space() {
  local need=$1 free got
  free=$(($(df -Pk "$root" | awk 'NR == 2 { print $4 }') / 1024))
  got=$(du -sk "$downloads" | awk '{ print int($1 / 1024) }')
  need=$((need > got ? need - got : 0))
  [ "$free" -ge "$need" ] || die "not enough room in $root: $need MB needed, $free MB free" "free some, or set GOTRAINER_HOME to a folder on another disk"
  say "room in $root: $need MB needed, $free MB free"
}

zip_url() {
  if [ -n "${GOTRAINER_LIBTORCH_URL:-}" ]; then
    echo "$GOTRAINER_LIBTORCH_URL"
    return
  fi
  local base=https://download.pytorch.org/libtorch
  case $platform in
    linux-x86_64) echo "$base/$variant/libtorch-shared-with-deps-$VERSION%2B$variant.zip" ;;
    macos-arm64) echo "$base/cpu/libtorch-macos-arm64-$VERSION.zip" ;;
    *) echo none ;; # no official zip for Linux on ARM
  esac
}

reachable() {
  if have curl; then
    curl -fsIL --connect-timeout 5 --max-time 15 -o /dev/null "$1" 2>/dev/null
  elif have wget; then
    wget -q --spider --tries 1 --timeout 10 "$1" 2>/dev/null
  else
    return 1
  fi
}

# download URL FILE: resumes an earlier download; starts over if the server cannot resume (curl's 22, 33, 36).
download() {
  if have curl; then
    local curl=(curl -fL --connect-timeout 10 --retry 3 --speed-limit 1024 --speed-time 60 -o "$2") status=0
    [ -t 2 ] || curl+=(-sS) # a progress bar only on a terminal
    "${curl[@]}" -C - "$1" || status=$?
    case $status in 22 | 33 | 36) rm -f "$2" && status=0 && "${curl[@]}" "$1" || status=$? ;; esac
    return "$status"
  else
    wget -c --tries 3 --timeout 60 -O "$2" "$1"
  fi
}

fetch_zip() { # -> $archives
  local url=$1 file="$downloads/libtorch-$VERSION-$variant-$platform.zip" sum
  if [ ! -f "$file" ]; then
    say "downloading $url"
    if ! download "$url" "$file.part"; then
      die "the download of $url did not finish; what has come is kept in $file.part" "run this again: it continues from there" "or take the wheels: --wheel"
    fi
    mv "$file.part" "$file"
  fi
  sum=$(sha256 "$file")
  if [ -n "${GOTRAINER_LIBTORCH_SHA256:-}" ]; then
    if [ "$sum" != "$GOTRAINER_LIBTORCH_SHA256" ]; then
      rm -f "$file"
      die "checksum of $url: expected SHA-256 $GOTRAINER_LIBTORCH_SHA256, found $sum; the file was removed" "run this again" \
        "if it stays wrong, check GOTRAINER_LIBTORCH_SHA256 and the mirror"
    fi
  else
    say "SHA-256 of the zip is $sum (none is published to compare with)"
  fi
  archives=("$file")
}

fetch_wheels() { # PYTHON -> $archives
  local python=$1 row_platform row_variant sum file name version found rows=0
  while read -r row_platform row_variant sum file; do
    [ "$row_platform" = "$platform" ] || continue
    [ "$row_variant" = cpu ] || [ "$row_variant" = "$variant" ] || continue
    rows=$((rows + 1))
    if [ -f "$downloads/$file" ] && [ "$(sha256 "$downloads/$file")" = "$sum" ]; then
      say "have $file"
    else
      rm -f "$downloads/$file"
      name=${file%%-*} version=${file#*-} version=${version%%-*}
      say "downloading $file"
      pip_download "$python" "$name==$version" ||
        die "pip could not download $name==$version for $platform (its own words are above)" "check the network and pip's index settings, and run this again" \
          "or set LIBTORCH to a libtorch or site-packages/torch that you have"
      [ -f "$downloads/$file" ] ||
        die "pip downloaded another file of $name==$version than $file, which $SUMS names" "check pip's index settings: pip config list"
      found=$(sha256 "$downloads/$file")
      if [ "$found" != "$sum" ]; then
        rm -f "$downloads/$file"
        die "checksum of $file: expected SHA-256 $sum, found $found; the file was removed" "run this again" \
          "if it stays wrong, the package index or a mirror serves another file: pip config list"
      fi
    fi
    archives+=("$downloads/$file")
  done < <(grep -v '^#' "$SUMS")
  [ "$rows" -gt 0 ] || die "$SUMS has no wheel for $platform"
}

# pip_download PYTHON REQUIREMENT: downloads the wheel for CPython 3.11 with any version of Python, since it is unpacked, never imported.
# pip's temporary files are in the install root, because /tmp is often too small for half a gigabyte.
pip_download() {
  local tags=() minor
  case $platform in
    linux-*) # manylinux_2_28 includes all older ones, but pip takes the names literally
      for minor in 28 27 26 25 24 23 22 21 20 19 18 17; do tags+=(--platform "manylinux_2_${minor}_${platform#linux-}"); done
      tags+=(--platform "manylinux2014_${platform#linux-}")
      ;;
    macos-arm64) tags+=(--platform macosx_11_0_arm64) ;;
  esac
  mkdir -p "$downloads/tmp"
  TMPDIR="$downloads/tmp" PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$1" -m pip download \
    --quiet --no-input --no-cache-dir --no-deps --only-binary=:all: "${tags[@]}" \
    --python-version 3.11 --implementation cp --abi cp311 --abi none --dest "$downloads" "$2" >&2
}
