"""Writes tiny/random.json: sums of what the tokenizers in tiny/ make of 3,000 random strings, in blocks of 500 (see
sums.py).
"""

# golden-check: the library's trainers number equal pieces in the order of a hash table, so another run learns another tokenizer; the tests hold for each
import glob
import json
import os

from sums import encodings, random_texts, sums
from tokenizers import Tokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny")
texts, out = random_texts(3000, 77), {}
for path in sorted(glob.glob(os.path.join(HERE, "*.json"))):
    name = os.path.basename(path)[:-5]
    if name not in ("cases", "random"):
        out[name] = sums(texts, encodings(Tokenizer.from_file(path)), 500)
with open(os.path.join(HERE, "random.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
