"""Writes train.json: vocabularies that WordPieceTrainer of the Hugging Face tokenizers library learns from a few texts.

The reference numbers characters in the order of a hash table that changes from run to run, and of equally frequent
pairs takes the one with the smaller numbers: its vocabulary is not always the same. So each is learnt in 12
processes, and only sizes at which all agree are kept. Which those are differs too, so a train.json that is there
stays: delete it to learn again.
"""

# golden-check: the library's trainers number equal pieces in the order of a hash table, so another run learns another tokenizer; the tests hold for each
import json
import os
import subprocess
import sys

TEXTS = [
    "The tokenizer cuts the text, and the trainer trains the tokenizer on the text.",
    "Texts are cut into tokens; tokens are pieces of texts.",
    "training trained trainers train the training trains",
    "کتاب کتاب‌ها کتاب‌خانه کتابی کتاب‌های کتابخانه",
    "the the the then there their them these",
]
SETTINGS = [
    {"vocab_size": n, "min_frequency": f, **more}
    for n in range(50, 180, 6)
    for f, more in ((0, {}), (2, {}), (3, {"limit_alphabet": 20}))
]

if len(sys.argv) > 1:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    out = []
    for s in SETTINGS:
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator(
            TEXTS,
            trainers.WordPieceTrainer(
                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False, **s
            ),
        )
        out.append(sorted(t.get_vocab()))
    json.dump(out, sys.stdout)
elif os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.json")):
    print("train.json stays: delete it to learn again", file=sys.stderr)
else:
    runs = [
        json.loads(subprocess.run([sys.executable, __file__, "run"], capture_output=True, check=True).stdout)
        for _ in range(12)
    ]
    kept = [
        {"settings": s, "vocab": v} for i, (s, v) in enumerate(zip(SETTINGS, runs[0])) if all(r[i] == v for r in runs)
    ]
    print(len(kept), "of", len(SETTINGS), file=sys.stderr)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.json"), "w") as f:
        json.dump({"texts": TEXTS, "cases": kept}, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
