"""Writes zz_runs.bin, zz_canonical.bin, zz_compatible.bin, zz_lower.bin and zz_compositions.bin: what the Hugging Face
tokenizers library (PyPI tokenizers 0.23.3) does with every code point.

The library mixes several versions of Unicode (its category crate has 8.0, its normalization crate 9.0, the standard
library and the regular expression engines newer ones), so its answers are asked for, one code point at a time, and
frozen here.

    python gen/tables.py # with what requirements.txt lists
"""

import sys
import unicodedata

import runs
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)

clean = normalizers.BertNormalizer(
    clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
).normalize_str
strip_mn = normalizers.BertNormalizer(
    clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
).normalize_str
strip_m = normalizers.StripAccents().normalize_str
nfd, nfkd, nfc = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str, normalizers.NFC().normalize_str
lowercase = normalizers.Lowercase().normalize_str
digits = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str
word = pre_tokenizers.Whitespace().pre_tokenize_str

everything = "".join(map(chr, POINTS))


def removed_by(pre_tokenizer):
    """The code points that a pre-tokenizer of behaviour "removed" leaves out."""
    kept = [False] * len(POINTS)
    for _, (start, end) in pre_tokenizer.pre_tokenize_str(everything):
        for i in range(start, end):
            kept[i] = True
    return {c for c, k in zip(POINTS, kept) if not k}


spaces = removed_by(pre_tokenizers.WhitespaceSplit())
punctuation = removed_by(pre_tokenizers.Punctuation("removed"))
category = {}
CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
for i, name in enumerate(CATEGORIES):
    if name not in ("Cn", "Cs"):
        for c in removed_by(pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed")):
            assert c not in category, hex(c)
            category[c] = i
assert spaces == removed_by(pre_tokenizers.Split(Regex(r"\s"), "removed"))

regexp_word = removed_by(pre_tokenizers.Split(Regex(r"\w"), "removed"))

canonical, compatible, lower = {}, {}, {}
flags = {}
for c in POINTS:
    s = chr(c)
    f = 0
    if c in spaces:
        f |= 1
    cleaned = clean(s)
    assert cleaned in ("", s) or (cleaned == " " and c in spaces)
    if cleaned == "":
        f |= 2
    if c in punctuation:
        f |= 4
    d = nfd(s)
    if d == s and strip_mn(s) == "":
        f |= 8
    if strip_m(s) == "":
        f |= 16
    if len(digits("a" + s)) == 2:
        f |= 32
    if len(word("a" + s)) == 1 and word("a" + s)[0][0] == "a" + s:
        f |= 64
    if c in regexp_word:
        f |= 128
    flags[c] = f
    if c not in HANGUL:
        if d != s:
            canonical[c] = d
        k = nfkd(s)
        if k != d:
            compatible[c] = k
    if lowercase(s) != s:
        lower[c] = lowercase(s)

marks = {}
for c in POINTS:
    v = unicodedata.combining(chr(c))
    if v and nfd(chr(c)) == chr(c) and nfd("\u0334" + chr(c)) == "\u0334" + chr(c):
        if v == 1 or nfd(chr(c) + "\u0334") == "\u0334" + chr(c):  # the library knows this mark
            marks.setdefault(v, chr(c))


def swapped(a, b):
    return nfd(a + b) == b + a and a != b


classes = {}
for c in POINTS:
    s = chr(c)
    if nfd(s) == s and (swapped("\u0301", s) or swapped(s, "\u0334")):
        found = [v for v, m in marks.items() if not swapped(m, s) and not swapped(s, m)]
        assert len(found) == 1, (hex(c), found)
        classes[c] = found[0]

compositions = []
for c, d in canonical.items():
    if len(d) > 1 and nfc(chr(c)) == chr(c):
        first = nfc(d[:-1])
        assert len(first) == 1 and nfc(first + d[-1]) == chr(c), hex(c)
        compositions.append(first + d[-1] + chr(c))


def text(name, entries):
    runs.replace("zz_%s.bin" % name, "".join(entries).encode())


for name, entries in ("canonical", canonical), ("compatible", compatible), ("lower", lower):
    text(name, (chr(c) + d + "\0" for c, d in sorted(entries.items())))
text("compositions", sorted(compositions))
count = runs.write("zz_runs.bin", lambda c: flags.get(c, 0) | category.get(c, 0) << 8 | classes.get(c, 0) << 16)
print(
    "decompositions %d+%d, lower %d, compositions %d, classes %d, runs %d"
    % (len(canonical), len(compatible), len(lower), len(compositions), len(classes), count),
    file=sys.stderr,
)
