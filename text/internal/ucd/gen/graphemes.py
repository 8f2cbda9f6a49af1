"""Writes zz_graphemes.bin: how every code point takes part in extended grapheme clusters, by the tables of Unicode 17
that the Hugging Face tokenizers library (PyPI tokenizers 0.23.3, with the crate unicode-segmentation 1.13.3) has.

The properties come from the package regex, which has them of Unicode 17 too. Whether the library has the same is asked
of its normalizer Precompiled, with a map that turns "a" into "b": a cluster of less than six bytes that begins with
"a" becomes "b" as a whole, so "a" followed by a code point shows whether that one extends a cluster. The tests of
package text hold the rest against the library.

    python gen/graphemes.py # with what requirements.txt lists
"""

import struct
import sys

import runs
import regex
import tokenizers
from tokenizers import normalizers

# In the order of the constants of type GraphemeClass. The first that holds counts.
CLASSES = [
    "GCB=CR",
    "GCB=LF",
    "GCB=Control",
    "GCB=Extend",
    "GCB=ZWJ",
    "GCB=Regional_Indicator",
    "GCB=Prepend",
    "GCB=SpacingMark",
    "GCB=L",
    "GCB=V",
    "GCB=T",
    "GCB=LV",
    "GCB=LVT",
    "Extended_Pictographic",
    "InCB=Consonant",
]
EVERYTHING = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)


def having(name):
    return {ord(m) for m in regex.findall(r"\p{%s}" % name, EVERYTHING)}


classes = {}
for i, name in enumerate(CLASSES):
    for c in having(name):
        classes.setdefault(c, i + 1)
for c in having("InCB=Linker"):
    classes[c] = classes.get(c, 0) | 32
for c in having("InCB=Extend"):
    classes[c] = classes.get(c, 0) | 16

# A double array of one key: unit 0 leads to unit 1^"a", that one has a leaf at the offset 128.
units = [0] * 512
units[0] = 1 << 10
units[1 ^ ord("a")] = ord("a") | 1 << 8 | (1 ^ ord("a") ^ 256) << 10
units[256] = 1 << 31
probe = normalizers.Precompiled(
    struct.pack("<I", 4 * len(units)) + struct.pack("<%dI" % len(units), *units) + b"b\0"
).normalize_str
assert probe("a") == "b" and probe("xax") == "xbx" and probe("a\u0300") == "b"
for c in map(ord, EVERYTHING):
    extends = classes.get(c, 0) & 15 in (4, 5, 8)
    if (probe("a" + chr(c)) == "b") != extends:
        sys.exit("%04x extends a cluster for one of regex and tokenizers only" % c)

print("runs %d" % runs.write("zz_graphemes.bin", lambda c: classes.get(c, 0)), file=sys.stderr)
