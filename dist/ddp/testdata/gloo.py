"""What torch.distributed with gloo makes of tensors on two processes, and DistributedDataParallel of gradients. Writes
gloo.safetensors.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import socket

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from goldenfile import save_file

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8]


def values(dtype, rank):
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(200, generator=g) * torch.tensor(10.0) ** torch.randint(-4, 4, (200,), generator=g)
    return (x.abs() % 100 if dtype == torch.uint8 else x).to(dtype)


def run(rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    out = {}
    for dtype in DTYPES:
        for name, op in [("sum", dist.ReduceOp.SUM), ("max", dist.ReduceOp.MAX), ("min", dist.ReduceOp.MIN)]:
            t = values(dtype, rank)
            out[f"{str(dtype)[6:]}.in.{rank}"] = t.clone()
            dist.all_reduce(t, op)
            out[f"{str(dtype)[6:]}.{name}"] = t
    for name, hook in [("fp16", default_hooks.fp16_compress_hook), ("bf16", default_hooks.bf16_compress_hook)]:
        model = torch.nn.Linear(50, 4, bias=False)
        torch.nn.init.constant_(model.weight, 0.5)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        parallel.register_comm_hook(None, hook)
        for step in range(2):
            model.weight.grad = None
            x = values(torch.float32, rank + 10 * step).view(4, 50)
            out[f"{name}.in.{rank}.{step}"] = x
            (parallel(x) * torch.arange(4)).sum().backward()
            out[f"{name}.{step}"] = model.weight.grad.clone()
    torch.save(out, f"rank{rank}.tmp")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(run, (port,), nprocs=2)
    both = {}
    for rank in range(2):
        both.update(torch.load(f"rank{rank}.tmp"))
        os.remove(f"rank{rank}.tmp")
    save_file(both, "gloo.safetensors", {"torch": torch.__version__})
