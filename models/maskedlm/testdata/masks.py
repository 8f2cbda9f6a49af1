"""Writes masks.json with transformers 5.17 and torch 2.11: what DataCollatorForLanguageModeling makes of batches, one
after the other.
"""

import json
import os

import torch
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

here = os.path.dirname(os.path.abspath(__file__))
VOCAB = 60
vocab = {
    n: i for i, n in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(5, VOCAB)])
}
tok = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="[UNK]")),
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
)


def texts(g, rows, width=None):
    out = []
    for _ in range(rows):
        n = width or int(torch.randint(3, 30, (), generator=g))
        ids = torch.randint(5, VOCAB, (n,), generator=g).tolist()
        ids[0], ids[-1] = 2, 3
        special = [0] * n
        special[0] = special[-1] = 1
        offsets, at = [], 0
        for i in range(n):
            if special[i]:
                offsets.append([0, 0])
                continue
            if i > 1 and torch.rand((), generator=g) < 0.5:
                at += 1  # a gap: the next word
            offsets.append([at, at + 2])
            at += 2
        out.append({"input_ids": ids, "special_tokens_mask": special, "offset_mapping": offsets})
    return out


cases = []
for name, settings in {
    "defaults": {},
    "half": dict(mlm_probability=0.5),
    "random only": dict(mask_replace_prob=0.0, random_replace_prob=1.0),
    "mask only": dict(mask_replace_prob=1.0, random_replace_prob=0.0),
    "balanced": dict(mlm_probability=0.9, mask_replace_prob=0.5, random_replace_prob=0.4),
    "no random": dict(mask_replace_prob=0.6, random_replace_prob=0.0),
    "whole words": dict(whole_word_mask=True, mlm_probability=0.4),
    "global generator": dict(seed=None),
    "all": dict(mlm_probability=1.0),
    "none": dict(mlm_probability=0.0),
}.items():
    g = torch.Generator().manual_seed(3)
    torch.manual_seed(9)
    collate = DataCollatorForLanguageModeling(tok, **{"seed": 11, **settings})
    batches = []
    for rows in (4, 1, 3):
        samples = texts(g, rows, 20 if "whole" in name else None)
        given = [{k: v for k, v in s.items() if k != "offset_mapping" or "whole" in name} for s in samples]
        out = collate(given)
        batches.append(
            {
                "samples": samples,
                "input_ids": out["input_ids"].flatten().tolist(),
                "labels": out["labels"].flatten().tolist(),
            }
        )
    cases.append(
        {
            "name": name,
            "settings": {k: v for k, v in settings.items() if k != "seed"},
            "seed": settings.get("seed", 11) or 0,
            "batches": batches,
            "next": torch.rand(2).tolist(),
        }
    )
with open(os.path.join(here, "masks.json"), "w") as f:
    json.dump(cases, f)
    f.write("\n")
