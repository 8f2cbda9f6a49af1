"""Small tokenizers of the kinds that encoders have, and the ids that the tokenizers library gives texts, for the
scripts in the testdata of packages modernbert and deberta.

The library's trainers do not learn the same twice, so a tokenizer that is there is kept.
"""

import json
import pathlib

import tokenizers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A tokenizer cuts texts into tokens, and tokens into pieces!",
    "Café, naïve, résumé: accents stay.",
    "سلام دنیا، این یک متن فارسی است. می‌روم",
    "def main(argv):\n    return 0  # code\t\tand tabs\r\n",
    "Numbers 1234567 and 3.14159, don't they're we've",
    "Привет, мир!",
    "日本語のテキスト",
    "unaffable unwanted running runner ran",
]
TEXTS = [
    *SENTENCES,
    "",
    " ",
    "a",
    "  leading and  double   spaces  ",
    "e\u0301\u0323 de\u0301ja\u0300",
    "the [MASK] dog",
    "the[MASK]dog [SEP]",
    "ﬁne ½ ｆｕｌｌ",
    "👩‍👧 🇮🇷",
    "a\u2028b\u00a0c\u200bd\ufeffe",
    "qqq\n\n\nzzz",
]
PAIRS = [("the quick brown fox", "jumps over"), ("", "b"), ("سلام", "[MASK] dog")]


def write(folder, make):
    """Writes tokenizer.json, which make makes where there is none, and cases.json into folder"""
    path = pathlib.Path(folder) / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        make().save(str(path), pretty=False)
    t = tokenizers.Tokenizer.from_file(str(path))
    cases = []
    for texts in [(x,) for x in TEXTS] + PAIRS:
        e = t.encode(*texts)
        cases.append(dict(texts=texts, ids=e.ids, types=e.type_ids))
    with open(path.parent / "cases.json", "w") as f:
        json.dump(cases, f, ensure_ascii=True)
        f.write("\n")
