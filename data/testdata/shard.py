"""Writes shard.json: what accelerate's BatchSamplerShard hands to every process. (A single process is not given one by
accelerate.)
"""

import itertools, json, pathlib
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler, SequentialSampler

cases = []
for n, size, drop, world, split, even in itertools.product(
    [0, 1, 2, 5, 7, 12, 13, 24], [1, 2, 3, 6], [False, True], [2, 3], [False, True], [True, False]
):
    if split and size % world:
        continue
    shards = [
        BatchSamplerShard(BatchSampler(SequentialSampler(range(n)), size, drop), world, rank, split, even)
        for rank in range(world)
    ]
    cases.append(
        {
            "samples": n,
            "batch_size": size,
            "drop_last": drop,
            "world_size": world,
            "split_batches": split,
            "even_batches": even,
            "batches": [[list(b) for b in s] for s in shards],
        }
    )
with open(pathlib.Path(__file__).with_suffix(".json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
