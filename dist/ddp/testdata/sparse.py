"""Sparse gradients of embeddings under DistributedDataParallel with gloo, on two and three processes. Writes
sparse.safetensors.

Weights are eighths, so that nothing is rounded but what DistributedDataParallel does: the bits are those of every
machine.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import socket

import torch
import torch.distributed as dist
from torch import nn
from goldenfile import save_file

VARIANTS = {
    "plain": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
    "views": {"gradient_as_bucket_view": True},
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 3, sparse=True)
        self.bags = nn.EmbeddingBag(9, 3, mode="sum", sparse=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x, bags):
        return self.head(torch.cat([self.words(x).sum(1), self.bags(bags)], 1))


def start(model):
    g = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randint(-8, 9, p.shape, generator=g) / 8)


def run(rank, world, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out = {}
    for name, options in VARIANTS.items():
        model = Model()
        start(model)
        parallel = nn.parallel.DistributedDataParallel(model, **options)
        g = torch.Generator().manual_seed(100 + rank)
        for step in range(3):
            # processes look up different numbers of different rows
            x = torch.randint(0, 12, (4, 1 + rank + step), generator=g)
            bags = torch.randint(0, 9, (4, 2 + rank), generator=g)
            parallel.zero_grad()
            out_ = parallel(x, bags)
            (out_ * out_).sum().backward()
            key = f"{name}.{world}.{step}"
            out[f"{key}.x.{rank}"], out[f"{key}.bags.{rank}"] = x, bags
            if rank == 0:
                for layer in ["words", "bags"]:
                    grad = getattr(model, layer).weight.grad
                    out[f"{key}.{layer}.indices"], out[f"{key}.{layer}.values"] = grad._indices(), grad._values().clone()
                out[f"{key}.head"] = model.head.weight.grad.clone()
    torch.save(out, f"rank{rank}.tmp")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    both = {}
    for world in (2, 3):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        torch.multiprocessing.spawn(run, (world, port), nprocs=world)
        for rank in range(world):
            both.update(torch.load(f"rank{rank}.tmp"))
            os.remove(f"rank{rank}.tmp")
    model = Model()
    start(model)
    both.update({f"start.{n}": p.detach() for n, p in model.named_parameters()})
    save_file(both, "sparse.safetensors", {"torch": torch.__version__})
