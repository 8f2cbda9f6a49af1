"""What the tokenizers library replaces by patterns that need backtracking: python backtrack.py writes backtrack.json."""

import json
import pathlib
import random

from tokenizers import Regex, normalizers

patterns = [
    r"(.)\1{2,}",
    r"(\w)\1",
    r"(?<c>[ابپ])\k<c>+",
    r"(\d\d)-\g<1>",
    r"(?<n>\d+),\g<n>",
    r"(a|(b)c)\g<1>\2",
    r"(?=ب)ب|(?<!x)y",
    r"(?<=\s)و(?=\s)",
    r"(?>a+)b",
    r"(?!\n)\s(\s)\1",
    r"(?i:(a))\1",
    r"\\(.)\1",
    r"[()](.)\1",
    r"(x)(?:y)\g<1>",
    r"(?<y>\d{4})(?<s>[-/])\d\d\k<s>\d\d",
    r"^(.).*\1$",
    r"(۱|۲)\1",
    r"(?<a>x)(y)\k<a>",
]
random.seed(3)
parts = [*"aabbcxyب پاا  ۱۱۲۲012--/,,\n\\()و", "11-22", "2020/01/02", "2020-01/02", " و ", "aab", "bcbc", "abc", "1,22"]
texts = [
    "سلاااام",
    "کککتاب",
    "11-22 33-4",
    "aabb",
    "xyx yx",
    "1,22 3",
    "bcbcb abca",
    "\\aa",
    "((  ",
    "xx yy",
    "abba\ncdc",
    "😀😀😀 a😀😀",
    "",
    *("".join(random.choices(parts, k=random.randint(1, 14))) for _ in range(40)),
]
recorded = []
for pattern in patterns:
    n = normalizers.Replace(Regex(pattern), "_")
    recorded.append({"pattern": pattern, "texts": [n.normalize_str(text) for text in texts]})
out = pathlib.Path(__file__).with_name("backtrack.json")
out.write_text(json.dumps({"in": texts, "patterns": recorded}, ensure_ascii=False, indent=0) + "\n")
