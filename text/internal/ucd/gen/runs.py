"""The form of the tables that are embedded: see tables.go. The programs import this first: it says what they lack."""

import os
import sys

try:
    import regex
    import tokenizers
except ModuleNotFoundError as missing:
    sys.exit(
        "text/internal/ucd/gen: %s in %s, so the tables stay as they are\n  -> make gen, which installs it under .build, "
        "or pip install -r text/internal/ucd/gen/requirements.txt" % (missing, sys.executable)
    )


def replace(path, data):
    """Writes a file aside and renames it, so that a program that fails leaves the former one whole."""
    aside = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(aside, "wb") as f:
            f.write(data)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.remove(aside)
        raise


def number(n):
    """An unsigned number of varying length, as Go's encoding/binary writes it."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def write(path, props):
    """Writes the properties of all code points, given by a function, as runs, and returns how many there are."""
    data, last, begin, runs = b"", None, 0, 0
    for c in range(0x110000):
        p = props(c)
        if p != last:
            data += number(c - begin) + number(p)
            last, begin, runs = p, c, runs + 1
    replace(path, data)
    return runs
