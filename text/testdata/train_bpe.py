"""Writes train_bpe.json: vocabularies and merges that BpeTrainer of the Hugging Face tokenizers library learns from a
few texts, at the level of bytes and of characters, and what they make of texts.
"""

import json
import os

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXTS = [
    "The tokenizer cuts the text, and the trainer trains the tokenizer on the text.",
    "Texts are cut into tokens; tokens are pieces of texts.",
    "training trained trainers train the training trains",
    "کتاب کتاب‌ها کتاب‌خانه کتابی کتاب‌های کتابخانه",
    "the the the then there their them these",
    "",
    "   spaces    and\ttabs\n\nand lines\n",
    "I'll don't we've 12345 123 12",
    "aaaaaaaaaa aaaaa aaa aa",
    "😀😀 😀 naïve café",
]
SEEN = TEXTS + [
    "Another text with trainers' tokens: 1234567890",
    "کتابخانه‌های",
    "<|endoftext|>the end<|endoftext|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaa",
]
cases = []
for size in (0, 257, 260, 300, 333, 1000):
    for more in ({}, {"min_frequency": 2}, {"special_tokens": ["<pad>", "<|endoftext|>"]}):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        settings = {"vocab_size": size, "special_tokens": ["<|endoftext|>"], **more}
        t.train_from_iterator(
            TEXTS,
            trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, **settings),
        )
        t.decoder, t.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
        cases.append(
            {
                "level": "bytes",
                "settings": settings,
                "tokenizer": json.loads(t.to_str()),
                "ids": [t.encode(s).ids for s in SEEN],
            }
        )
for size in (10, 60, 90, 1000):
    for more in ({}, {"min_frequency": 3}):  # limit_alphabet breaks ties by a hash table
        t = Tokenizer(models.BPE(unk_token="<unk>"))
        t.pre_tokenizer = pre_tokenizers.Whitespace()
        settings = {"vocab_size": size, "special_tokens": ["<unk>"], **more}
        t.train_from_iterator(TEXTS, trainers.BpeTrainer(show_progress=False, **settings))
        cases.append(
            {
                "level": "characters",
                "settings": settings,
                "tokenizer": json.loads(t.to_str()),
                "ids": [t.encode(s).ids for s in SEEN],
            }
        )
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_bpe.json"), "w") as f:
    json.dump({"texts": TEXTS, "seen": SEEN, "cases": cases}, f, ensure_ascii=False, separators=(",", ":"))
    f.write("\n")
