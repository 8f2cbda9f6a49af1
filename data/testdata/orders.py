"""Writes orders.json: permutations of torch 2.11.0, transformers 5.17 and Python's random, which the orders of this
package must repeat.
"""

import hashlib
import json
import pathlib
import random

import torch
from accelerate.data_loader import SeedableRandomSampler
from torch.utils.data import random_split
from transformers.trainer_pt_utils import get_length_grouped_indices


def digest(indices):
    """Long permutations are compared by the SHA-256 of their numbers, each followed by a space."""
    return hashlib.sha256("".join(f"{i} " for i in indices).encode()).hexdigest()


def entry(**fields):
    indices = fields.pop("indices")
    short = {"indices": indices} if len(indices) <= 32 else {"sha256": digest(indices)}
    return {**fields, "n": len(indices), **short}


golden = {"seedable": [], "randperm": [], "python": [], "grouped": [], "split": [], "sizes": []}
for n in (0, 1, 2, 7, 32, 1000):
    for seed in (0, 42):
        sampler = SeedableRandomSampler(range(n), data_seed=seed) if n else None
        for epoch in range(3):
            indices = []
            if sampler:
                sampler.set_epoch(epoch)
                indices = list(sampler)
            golden["seedable"].append(entry(seed=seed, epoch=epoch, indices=indices))
for seed in (0, 2**32 - 1, 2**32 + 5, 2**64 - 1):
    for n in (16, 100_000):
        g = torch.Generator().manual_seed(seed if seed < 2**63 else seed - 2**64)
        golden["randperm"].append(entry(seed=seed, indices=torch.randperm(n, generator=g).tolist()))
for seed in (0, 42, 2**32 - 1, 2**40 + 3):
    for n in (0, 1, 10, 1000):
        random.seed(seed)
        indices = list(range(n))
        random.shuffle(indices)
        golden["python"].append(entry(seed=seed, indices=indices))
for n, batch in ((1, 4), (10, 4), (100, 4), (1000, 3)):
    rng = random.Random(n)
    lengths = [rng.randrange(1, 20) for _ in range(n)]
    g = torch.Generator().manual_seed(7)
    golden["grouped"].append(
        entry(seed=7, batch=batch, lengths=lengths, indices=get_length_grouped_indices(lengths, batch, generator=g))
    )
for n, fraction, rest in (
    (10, 0.9, 0.1),
    (10, 0.5, 0.5),
    (11, 0.5, 0.5),
    (7, 0.1, 0.9),
    (3, 1.0, 0.0),
    (20, 0.85, 0.15),
    (29, 0.7, 0.3),
    (3, 2 / 3, 1 / 3),
):
    g = torch.Generator().manual_seed(42)
    first, second = random_split(range(n), [fraction, rest], generator=g)
    golden["split"].append(
        {"n": n, "fraction": fraction, "seed": 42, "first": list(first.indices), "second": list(second.indices)}
    )
for n, fraction, rest in (
    (100, 0.8, 0.2),
    (100, 0.71, 0.29),
    (1000, 0.9, 0.1),
    (50_000, 0.9, 0.1),
    (10_000, 0.9999, 0.0001),
    (9, 1 / 3, 2 / 3),
):
    golden["sizes"].append(
        {"n": n, "fraction": fraction, "lengths": [len(part) for part in random_split(range(n), [fraction, rest])]}
    )
text = json.dumps(golden).replace('{"seed"', '\n{"seed"').replace('{"n"', '\n{"n"')
(pathlib.Path(__file__).parent / "orders.json").write_text(text + "\n")
