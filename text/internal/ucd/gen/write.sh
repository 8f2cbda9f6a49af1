#!/bin/sh
# write.sh NAME: runs gen/NAME.py, which writes its files whole or not at all, if this Python can.
set -eu

python3 -c 'import regex, tokenizers' || {
  echo "gen/write.sh: python3 lacks what gen/$1.py asks; its files stay as they are" >&2
  echo "  -> make gen, which installs it under .build, or python3 -m pip install -r text/internal/ucd/gen/requirements.txt" >&2
  exit 1
}
exec python3 "gen/$1.py"
