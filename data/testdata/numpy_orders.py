"""Writes numpy_orders.json: what datasets 5.2 (numpy 2.4) shuffles, splits and shards, which this package must repeat
for the same seeds.
"""

import hashlib
import json
import pathlib

import numpy
from datasets import Dataset


def digest(indices):
    """Long lists are compared by the SHA-256 of their numbers, each followed by a space."""
    return hashlib.sha256("".join(f"{i} " for i in indices).encode()).hexdigest()


def entry(indices, **fields):
    short = {"indices": indices} if len(indices) <= 40 else {"sha256": digest(indices)}
    return {**fields, **short}


golden = {"permutation": [], "split": [], "shard": []}
for seed in (0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**63 + 5, 2**64 - 1):
    for n in (0, 1, 2, 3, 10, 40, 1000, 70_000):
        golden["permutation"].append(entry(numpy.random.default_rng(seed).permutation(n).tolist(), seed=seed, n=n))
    d = Dataset.from_dict({"i": list(range(40))}).shuffle(seed=seed)
    assert d["i"][:] == numpy.random.default_rng(seed).permutation(40).tolist()
for n, fraction, seed in ((10, 0.25, 42), (10, 0.1, 0), (33, 0.5, 7), (29, 0.3, 42), (40, 0.05, 42)):
    d = Dataset.from_dict({"i": list(range(n))}).train_test_split(test_size=fraction, seed=seed)
    golden["split"].append(
        {"n": n, "fraction": fraction, "seed": seed, "train": d["train"]["i"][:], "test": d["test"]["i"][:]}
    )
for n, shards in ((10, 3), (7, 2), (5, 5), (11, 4)):
    d = Dataset.from_dict({"i": list(range(n))})
    for contiguous in (True, False):
        golden["shard"].append(
            {
                "n": n,
                "shards": shards,
                "contiguous": contiguous,
                "parts": [d.shard(shards, k, contiguous=contiguous)["i"][:] for k in range(shards)],
            }
        )
text = json.dumps(golden).replace('{"seed"', '\n{"seed"').replace('{"n"', '\n{"n"')
(pathlib.Path(__file__).parent / "numpy_orders.json").write_text(text + "\n")
