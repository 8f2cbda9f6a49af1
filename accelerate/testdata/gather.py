"""Two and three processes on the CPU (gloo): what Accelerate gathers of sets and streams whose batches do not come out
even, pads and reduces.

Writes gather.json.
"""

import json
import os

os.environ.update(ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1")

from two_processes import free_port  # before torch, whose settings it pins

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def run(rank, world, port):
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    out = {"world": world, "passes": []}
    for split, dispatch in [(False, None), (True, None), (False, False), (True, False)]:
        acc = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=split, dispatch_batches=dispatch))
        for stream in (False, True) if dispatch is None else (True,):
            for drop_last in (False, True):
                for n in (5, 11, 12, 22, 24):
                    if stream and drop_last and n < (2 if split else 4) * world:
                        continue  # a stream without a batch is an error
                    loader = acc.prepare(
                        DataLoader(
                            Stream(n) if stream else range(n), batch_size=2 * world if split else 4, drop_last=drop_last
                        )
                    )
                    own, gathered = [], []
                    for x in loader:
                        own.append(x.tolist())
                        gathered.append(acc.gather_for_metrics(x).tolist())
                    out["passes"].append(
                        {
                            "split": split,
                            "own_reader": dispatch is False,
                            "stream": stream,
                            "drop_last": drop_last,
                            "samples": n,
                            "own": own,
                            "gathered": gathered,
                        }
                    )
    x = torch.arange(2 * (rank + 1)).reshape(2, rank + 1)
    out["padded"] = [
        acc.pad_across_processes(x, dim=d, pad_index=i, pad_first=f).tolist()
        for d, i, f in [(0, 0, False), (1, -100, False), (-1, 7, True), (2, 5, False)]
    ]
    out["gathered"] = acc.gather(acc.pad_across_processes(x, dim=1, pad_index=-100)).tolist()
    y = torch.tensor([0.1, 1.0 / 3, 1e8]) * (rank + 1)
    out["sum"], out["mean"] = [[v.hex() for v in acc.reduce(y, r).tolist()] for r in ("sum", "mean")]
    acc.end_training()
    with open(f"gather.{rank}.tmp", "w") as f:
        json.dump(out, f)


if __name__ == "__main__":
    runs = []
    for world in (2, 3):
        torch.multiprocessing.spawn(run, (world, free_port()), nprocs=world)
        runs.append([])
        for rank in range(world):
            with open(f"gather.{rank}.tmp") as f:
                runs[-1].append(json.load(f))
            os.remove(f"gather.{rank}.tmp")
    with open("gather.json", "w") as f:
        f.write("[" + ",\n".join("[" + ",\n".join(json.dumps(r) for r in ranks) + "]" for ranks in runs) + "]\n")
