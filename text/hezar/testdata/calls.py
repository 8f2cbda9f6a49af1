"""Trains Hezar's tokenizers on a few sentences, saves them as Hezar does and writes what calls of them give, and
Hezar's text normalizer.
"""

# golden-check: the library's trainers number equal pieces in the order of a hash table, so another run learns another tokenizer; the tests hold for each
import json
import os

import hezar
from hezar.preprocessors import (
    TextNormalizer,
    TextNormalizerConfig,
    WordPieceConfig,
    WordPieceTokenizer,
    BPEConfig,
    BPETokenizer,
)

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["سلام دنیا، این یک متن است.", "می‌روم", "کتاب‌ها را می‌خوانم و می‌نویسم؛ این کتاب یک متن است", "علي كتاب ½ ﷲ ۱۲"]
CALLS = [
    {},
    {"padding": "longest"},
    {"padding": "max_length", "max_length": 9},
    {"padding": "longest", "truncation": "longest_first", "max_length": 6},
    {"truncation": "only_first", "max_length": 5},
    {"padding": "max_length", "truncation": "longest_first", "max_length": 7},
    {"padding": "longest", "pad_to_multiple_of": 8},
]
out = {"hezar": hezar.__version__, "tokenizers": {}, "normalizer": []}
for name, t in {
    "wordpiece": WordPieceTokenizer(
        WordPieceConfig(vocab_size=120, min_frequency=1, additional_special_tokens=None, show_progress=False)
    ),
    "wordpiece_left": WordPieceTokenizer(
        WordPieceConfig(
            vocab_size=120,
            min_frequency=1,
            padding_side="left",
            truncation_side="left",
            pad_token_type_id=1,
            show_progress=False,
        )
    ),
    "bpe": BPETokenizer(BPEConfig(vocab_size=330, min_frequency=1, show_progress=False)),
}.items():
    from tokenizers import pre_tokenizers, normalizers

    if name.startswith("word"):
        t._tokenizer.pre_tokenizer, t._tokenizer.normalizer = pre_tokenizers.BertPreTokenizer(), normalizers.NFKC()
        t.special_tokens = t.config.special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    else:
        t.config.special_tokens = ["<s>", "</s>", "<unk>", "<pad>"]
    if not os.path.exists(os.path.join(HERE, name)):  # what the library learns differs from run to run
        t.train_from_iterator(TEXTS)
        t.no_truncation()
        t.no_padding()
        t.save(os.path.join(HERE, name))
    t = type(t).load(os.path.join(HERE, name))
    rows = []
    for c in CALLS:
        r = t(TEXTS, **c)
        rows.append({"call": c, "token_ids": r["token_ids"], "attention_mask": r["attention_mask"]})
    out["tokenizers"][name] = {"texts": TEXTS, "calls": rows, "decoded": t.decode(rows[0]["token_ids"])}
PATTERNS = [["ي", "ی"], ["ك", "ک"], ["[ؤئ]", "x"], ["\\s+", " "]]
n = TextNormalizer(TextNormalizerConfig(replace_patterns=PATTERNS, nfkd=False))
n.save(os.path.join(HERE, "normalizer"))
INPUTS = TEXTS + ["ﻻ é １２３", "ﬁ  x\t y", "مؤمن ئ", "㎞ ½ ﷲ", "", "آب"]
for s in INPUTS:
    out["normalizer"].append({"in": s, "default": n(s)[0], "nfkd_off": n(s, nfkd=False)[0]})
with open(os.path.join(HERE, "calls.json"), "w") as f:
    json.dump(out, f, ensure_ascii=False, indent=1)
    f.write("\n")
