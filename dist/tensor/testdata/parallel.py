"""What torch.distributed.tensor.parallel makes of two MLPs on two processes with gloo, and what the undivided model
computes. Writes parallel.safetensors.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import socket

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from goldenfile import save_file

STEPS, RATE = 3, 0.05


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(6)
        self.up = torch.nn.Linear(6, 8)
        self.down = torch.nn.Linear(8, 6)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = torch.nn.Linear(5, 6)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.outlet = torch.nn.Linear(6, 2, bias=False)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.outlet(x)


def whole(t):
    return (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone()


def train(out, parallel):
    torch.manual_seed(3)
    model = Model()
    x, y = torch.randn(4, 3, 5), torch.randn(4, 3, 2)
    if parallel:
        plan = {"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}
        parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    prefix = "parallel." if parallel else "alone."
    if not parallel:
        out.update({"x": x, "y": y, **{f"start.{n}": whole(p) for n, p in model.named_parameters()}})
    opt = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, foreach=False)
    for step in range(STEPS):
        output = model(x)
        loss = (output - y).square().mean()
        loss.backward()
        if step == 0:
            out[prefix + "output"] = whole(output)
            out.update({f"{prefix}grad.{n}": whole(p.grad) for n, p in model.named_parameters()})
        out[f"{prefix}loss.{step}"] = whole(loss)
        opt.step()
        opt.zero_grad()
    out.update({f"{prefix}end.{n}": whole(p) for n, p in model.named_parameters()})


def run(rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out = {}
    train(out, parallel=False)
    train(out, parallel=True)
    if rank == 0:
        save_file(out, "parallel.safetensors", {"torch": torch.__version__})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(run, (port,), nprocs=2)
