#!/bin/sh
# write.sh NAME: writes zz_NAME.go, as gen/NAME.py prints it, whole or not at all.
set -eu

table=zz_$1.go
new=$(mktemp "$table.XXXXXX")
trap 'rm -f "$new"' EXIT

python3 -c 'import regex, tokenizers' || {
  echo "gen/write.sh: python3 lacks what gen/$1.py asks; $table stays as it is" >&2
  echo "  -> make gen, which installs it under .build, or python3 -m pip install -r text/internal/ucd/gen/requirements.txt" >&2
  exit 1
}
python3 "gen/$1.py" >"$new"
gofmt -w "$new"
chmod 644 "$new"
mv "$new" "$table"
