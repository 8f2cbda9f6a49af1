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
APART = "\u4e02"  # an ideograph that no rule concerns


def each(normalize, texts):
    """What becomes of each text. A call for each would take minutes, so one gets all of them, kept apart."""
    parts = normalize(APART.join("" if APART in t else t for t in texts)).split(APART)
    assert len(parts) == len(texts)
    return [normalize(t) if APART in t else part for t, part in zip(texts, parts)]


def removed_by(pre_tokenizer, points=POINTS):
    """The code points that a pre-tokenizer of behaviour "removed" leaves out."""
    kept = [False] * len(points)
    for _, (start, end) in pre_tokenizer.pre_tokenize_str("".join(map(chr, points))):
        for i in range(start, end):
            kept[i] = True
    return {c for c, k in zip(points, kept) if not k}


def matched_by(expression, points=POINTS):
    """The code points that a regular expression matches."""
    return removed_by(pre_tokenizers.Split(Regex(expression), "removed"), points)


spaces = removed_by(pre_tokenizers.WhitespaceSplit())
punctuation = removed_by(pre_tokenizers.Punctuation("removed"))
unassigned = matched_by(r"\p{Cn}")
assigned = [c for c in POINTS if c not in unassigned]
category = {}
CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
for i, name in enumerate(CATEGORIES):
    if name not in ("Cn", "Cs"):
        for c in matched_by(r"\p{%s}" % name, assigned):
            assert c not in category, hex(c)
            category[c] = i
assert len(category) == len(assigned)
assert spaces == matched_by(r"\s")

regexp_word = matched_by(r"\w")

# Digits cuts before a digit that follows a letter, and Whitespace does not cut before a letter of a word.
starts = {start for _, (start, _) in digits("".join("a" + s for s in everything))}
numeric = {c for i, c in enumerate(POINTS) if 2 * i + 1 in starts}
ends = dict(span for _, span in word("".join("a" + s + " " for s in everything)))
in_words = {c for i, c in enumerate(POINTS) if ends[3 * i] == 3 * i + 2}

canonical, compatible, lower = {}, {}, {}
flags = {}
answers = [each(f, everything) for f in (clean, strip_mn, strip_m, nfd, nfkd, lowercase)]
for c, s, cleaned, without_mn, without_m, d, k, small in zip(POINTS, everything, *answers):
    f = 0
    if c in spaces:
        f |= 1
    assert cleaned in ("", s) or (cleaned == " " and c in spaces)
    if cleaned == "":
        f |= 2
    if c in punctuation:
        f |= 4
    if d == s and without_mn == "":
        f |= 8
    if without_m == "":
        f |= 16
    if c in numeric:
        f |= 32
    if c in in_words:
        f |= 64
    if c in regexp_word:
        f |= 128
    flags[c] = f
    if c not in HANGUL:
        if d != s:
            canonical[c] = d
        if k != d:
            compatible[c] = k
    if small != s:
        lower[c] = small

marks = {}
for c in POINTS:
    v = unicodedata.combining(chr(c))
    if v and nfd(chr(c)) == chr(c) and nfd("\u0334" + chr(c)) == "\u0334" + chr(c):
        if v == 1 or nfd(chr(c) + "\u0334") == "\u0334" + chr(c):  # the library knows this mark
            marks.setdefault(v, chr(c))


def swapped(a, b):
    return nfd(a + b) == b + a and a != b


classes = {}
behind = each(nfd, ["\u0301" + s for s in everything])
before = each(nfd, [s + "\u0334" for s in everything])
for c, s, after, first in zip(POINTS, everything, behind, before):
    moves = (after == s + "\u0301" and s != "\u0301") or (first == "\u0334" + s and s != "\u0334")
    if moves and nfd(s) == s:
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
