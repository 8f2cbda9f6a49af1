"""Two processes on the CPU (gloo) train with Accelerate: what each sees, the losses, the weights, the buffers and the
gathered predictions.

Writes two_processes.safetensors, with one entry per process where they may differ.
"""

import os
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["ACCELERATE_USE_CPU"] = "true"

import torch
from accelerate import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs
from accelerate.utils import set_seed
from goldenfile import save_file
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.norm = nn.BatchNorm1d(7)
        self.second = nn.Linear(7, 3)
        self.unused = nn.Linear(2, 2)  # has no gradient on any process
        self.sometimes = nn.Parameter(torch.ones(3))  # has one on the second process only

    def forward(self, x, rank):
        y = self.second(torch.relu(self.norm(self.first(x))))
        return y * self.sometimes if rank == 1 else y


def samples():
    i = torch.arange(22 * 5, dtype=torch.float32)
    return torch.sin(i * 0.7).reshape(22, 5), torch.arange(22) % 3


def run(rank, world, port, seedable):
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    acc = Accelerator(
        gradient_accumulation_steps=2,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=seedable),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    set_seed(
        7 + (0 if seedable else rank)
    )  # without a seed of the sampler, the processes agree on an order all the same
    model = Net()
    out = {}
    opt = torch.optim.AdamW(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(*samples()), batch_size=4, shuffle=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: max(0.0, 1 - n / 8))
    model, opt, loader, sched = acc.prepare(model, opt, loader, sched)
    losses, rates, seen = [], [], []
    for epoch in range(2):
        loader.set_epoch(epoch)
        for x, y in loader:
            with acc.accumulate(model):
                loss = nn.functional.cross_entropy(model(x, rank), y)
                acc.backward(loss)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            losses.append(loss.detach())
            rates.append(torch.tensor(opt.optimizer.param_groups[0]["lr"], dtype=torch.float64))
            seen.append(x[:, 0].clone())
    net = acc.unwrap_model(model)
    for name, t in net.state_dict().items():
        out[f"{name}"] = t.clone()
    net.eval()
    evaluation = acc.prepare(DataLoader(TensorDataset(*samples()), batch_size=4))
    kept = []
    with torch.no_grad():
        for x, y in evaluation:
            kept.append(acc.gather_for_metrics(x[:, 0].contiguous()))
    out["gathered"] = torch.cat(kept)
    out["losses"], out["rates"], out["seen"] = torch.stack(losses), torch.stack(rates), torch.cat(seen)
    save_file(out, f"rank{rank}.tmp")
    acc.end_training()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    both = {}
    for seedable in (True, False):
        torch.multiprocessing.spawn(run, (2, free_port(), seedable), nprocs=2)
        for rank in range(2):
            for name, t in load_file(f"rank{rank}.tmp").items():
                both[f"{'seedable' if seedable else 'drawn'}.{rank}.{name}"] = t
            os.remove(f"rank{rank}.tmp")
    save_file(both, "two_processes.safetensors", metadata={"torch": torch.__version__})
