"""Golden values from StopStringCriteria of transformers 5.17: python stop.py writes stop.json beside it.

For tokenizers of text/testdata/tiny, sequences of tokens and strings: behind which numbers of tokens of a sequence the
last one completes a string.
"""

import json
import pathlib
import random

import torch
from transformers import PreTrainedTokenizerFast
from transformers.generation import StopStringCriteria

here = pathlib.Path(__file__).resolve().parent
NAMES = ["gpt2", "llama2", "llama3", "unigram", "uncased", "cased"]
out = {}
for name in NAMES:
    tok = PreTrainedTokenizerFast(tokenizer_file=str(here.parents[2] / "text/testdata/tiny" / (name + ".json")))
    ids = sorted(tok.get_vocab().values())
    draw = random.Random(name)
    cases = []
    while len(cases) < 40:
        front = (
            tok("the best of café, naïve 東京 ok", add_special_tokens=False)["input_ids"] if draw.random() < 0.5 else []
        )
        row = front + [draw.choice(ids) for _ in range(12)] + ([ids[-1] + 7] if draw.random() < 0.1 else [])
        draw.shuffle(row)
        whole = tok.decode(row)
        stops = []
        for _ in range(draw.randint(1, 3)):
            at, n = draw.randrange(len(whole)), draw.randint(1, 7)
            stops.append(whole[at : at + n].replace("\ufffd", "é"))
        try:
            stop = StopStringCriteria(tok, stops)
        except ValueError as e:
            if "unable to identify" in str(e):  # no token has the end of a string
                continue
            raise
        cases.append(
            dict(ids=row, stops=stops, at=[n for n in range(1, len(row) + 1) if stop(torch.tensor([row[:n]]), None)[0]])
        )
    out[name] = cases

with open(here / "stop.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
