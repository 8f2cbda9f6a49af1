"""Writes no_duplicates.json: the batches of sentence-transformers 6.2's NoDuplicatesBatchSampler with drop_last, for
data sets with more and fewer values in common.
"""

import json
import pathlib

import torch
from datasets import Dataset
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler

cases = []
for n, distinct, size, seed in [
    (12, 40, 4, 42),
    (24, 30, 4, 42),
    (30, 12, 4, 7),
    (40, 9, 3, 1),
    (33, 7, 3, 0),
    (20, 6, 3, 5),
    (5, 50, 1, 3),
]:
    g = torch.Generator().manual_seed(n)
    values = [[f"a{int(i)}" for i in torch.randint(0, distinct, (2,), generator=g)] for _ in range(n)]
    sampler = NoDuplicatesBatchSampler(
        Dataset.from_dict({"a": [v[0] for v in values], "b": [v[1] for v in values]}),
        size,
        True,
        generator=torch.Generator(),
        seed=seed,
    )
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append([i for b in sampler for i in b])
    cases.append({"values": values, "batch_size": size, "seed": seed, "epochs": epochs})
with open(pathlib.Path(__file__).with_suffix(".json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
