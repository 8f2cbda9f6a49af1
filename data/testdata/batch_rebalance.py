"""Writes batch_rebalance.json: the batches of transformers 5.17's BatchRebalanceSampler."""

import json, os, random
from transformers.trainer_pt_utils import BatchRebalanceSampler

r, cases = random.Random(11), []
for i in range(60):
    n, size, accumulate, world = (
        r.choice([1, 2, 5, 13, 30, 64]),
        r.choice([1, 2, 3, 8]),
        r.choice([1, 2, 3, 5]),
        r.choice([1, 1, 2, 3]),
    )
    longest = r.choice([3, 20, 400, 5000])
    lengths = [r.randint(1, longest) if r.random() < 0.8 else longest for _ in range(n)]
    drop, epoch, seed = r.random() < 0.4, r.randrange(3), r.choice([42, 7])
    ranks = []
    for rank in range(world):
        s = BatchRebalanceSampler(
            lengths=lengths,
            effective_batch_size=size * accumulate * world,
            dp_size=world,
            grad_accum=accumulate,
            seed=seed,
            rank=rank,
            drop_last=drop,
        )
        s.set_epoch(epoch)
        ranks.append(list(s))
        assert len(ranks[-1]) == len(s)
    cases.append(
        {
            "lengths": lengths,
            "batch_size": size,
            "accumulate": accumulate,
            "drop_last": drop,
            "seed": seed,
            "epoch": epoch,
            "ranks": ranks,
        }
    )
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "batch_rebalance.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
