"""Two and three processes on the CPU (gloo) train with PyMarlin 0.3.6, backend ddp: what each sees, its losses, norms
and estimates, what its hooks are given, the stats of rank 0, the weights and buffers. Writes
two_processes.safetensors, with entries run.rank.name, and two_processes_0.pt, the checkpoint of the run "continued"
after its first epoch.

Beside pymarlin_shims.py there are two more shims, for DDPTrainerBackend is written for GPUs: torch.cuda.set_device does
nothing, and DistributedDataParallel is given no device_ids, which it refuses for a model on the CPU. gather_frequency
is as large as need be: without it outputs are gathered in pieces as long as the first one that ever was.
"""

import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import pymarlin_shims  # noqa: E402, F401
import torch
from goldenfile import save_file
from pymarlin.core import trainer_backend as tb
from pymarlin.core.module_interface import ModuleInterface
from pymarlin.core.trainer import Trainer, TrainerArguments
from pymarlin.utils import stats
from pymarlin.utils.checkpointer import checkpoint_utils as ck
from pymarlin.utils.distributed import DistributedTrainingArguments
from pymarlin.utils.writer.base import Writer
from safetensors.torch import load_file

RUNS = {
    "plain": dict(world=2, epochs=2, train_batch_size=8, val_batch_size=3),
    "accumulated": dict(
        world=2, epochs=3, train_batch_size=16, gpu_batch_size_limit=2, val_batch_size=2, max_grad_norm=0.3
    ),
    "limited": dict(
        world=2,
        epochs=2,
        train_batch_size=9,
        gpu_batch_size_limit=2,
        max_train_steps_per_epoch=2,
        max_val_steps_per_epoch=3,
    ),
    "three": dict(world=3, epochs=2, train_batch_size=12, gpu_batch_size_limit=2, clip_grads=False, val_batch_size=2),
    "continued": dict(world=2, epochs=2, train_batch_size=8, val_batch_size=3),
}


class Net(ModuleInterface):
    """processes_test.go has the same."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7, bias=False)
        self.norm = torch.nn.BatchNorm1d(7)
        self.dropout = torch.nn.Dropout(0.3)
        self.second = torch.nn.Linear(7, 3)
        self.unused = torch.nn.Linear(2, 2)
        self.seen, self.losses, self.notes, self.out = [], [], {}, {}

    def get_optimizers_schedulers(self, steps, epochs):
        self.out["estimate"] = torch.tensor(steps)
        a = torch.optim.SGD([*self.first.parameters(), *self.norm.parameters()], lr=0.1, momentum=0.9, foreach=False)
        b = torch.optim.AdamW([*self.second.parameters(), *self.unused.parameters()], lr=0.02, foreach=False)
        return [a, b], [torch.optim.lr_scheduler.StepLR(a, 2, gamma=0.5)]

    def loader(self, n, sampler, batch_size):
        rows = list(range(n))
        return torch.utils.data.DataLoader(rows, batch_size=batch_size, sampler=sampler(rows), collate_fn=lambda r: r)

    def get_train_dataloader(self, sampler, batch_size):
        return self.loader(23, sampler, batch_size)

    def get_val_dataloaders(self, sampler, batch_size):
        return self.loader(7, sampler, batch_size)

    def outputs(self, rows):
        x = torch.sin(torch.arange(23 * 5, dtype=torch.float32) * 0.7).reshape(23, 5)[rows]
        y = self.second(self.dropout(torch.tanh(self.norm(self.first(x)))))
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(rows) % 3)
        self.seen.extend(rows)
        self.losses.append(loss.detach().clone())
        return loss, torch.tensor(rows), y

    def train_step(self, global_step, batch, device):
        return self.outputs(batch)[:2]

    def val_step(self, global_step, batch, device):
        return self.outputs(batch)

    def note(self, name, *outs):
        for i, t in enumerate(outs):
            self.notes.setdefault(f"{name}.{i}", []).append(t.detach().clone().reshape(-1).to(torch.float32))

    def on_end_train_step(self, global_step, *outs):
        self.note("step", *outs)

    def on_end_train_epoch(self, global_step, *outs):
        self.note("epoch", *outs)

    def on_end_val_epoch(self, global_step, *outs, key="default"):
        self.note("val", *outs)
        stats.global_stats.update("val_loss", outs[0].mean().item())


class Recorded(Writer):
    def __init__(self, net):
        self.net = net

    def log_scalar(self, k, v, step):
        if k != "epoch":
            self.net.note("stat." + k, torch.tensor([step, v]))

    def log_multi(self, k, v, step):
        pass


def run(rank, name, port, folder):
    options = dict(RUNS[name])
    world = options.pop("world")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.cuda.set_device = lambda *a: None
    parallel = tb.DistributedDataParallel
    tb.DistributedDataParallel = lambda model, device_ids, output_device, **k: parallel(model, **k)
    clip = torch.nn.utils.clip_grad_norm_

    def build(epochs, load_dir):
        torch.manual_seed(5 + rank)
        net = Net()
        keep = ck.DefaultCheckpointerArguments(
            save_dir=folder, model_state_save_dir=None, load_dir=load_dir, load_filename="model_0.pt"
        )
        ranks = DistributedTrainingArguments(local_rank=rank, global_rank=rank, world_size=world, backend="gloo")
        stats.global_stats.reset()
        args = TrainerArguments(
            use_gpu=False,
            disable_tqdm=True,
            writers=[Recorded(net)],
            checkpointer_args=keep,
            distributed_training_args=ranks,
            **(options | {"epochs": epochs}),
        )
        backend = tb.build_trainer_backend("ddp", gather_frequency=10**6)
        trainer = Trainer(net, args, trainer_backend=backend)

        def clip_noted(params, norm):
            total = clip(params, norm)
            net.note("norm", total)
            return total

        torch.nn.utils.clip_grad_norm_ = clip_noted
        return net, trainer, backend

    if name == "continued":
        _, trainer, backend = build(1, None)
        trainer.train()
        torch.distributed.barrier()
        backend.cleanup()
        if rank == 0:
            shutil.copy(os.path.join(folder, "model_0.pt"), "two_processes_0.pt")
        os.environ["MASTER_PORT"] = str(port + 1)
    net, trainer, backend = build(options["epochs"], folder if name == "continued" else None)
    trainer.train()
    out = {k: v.clone() for k, v in net.state_dict().items()} | net.out
    out["seen"], out["losses"] = torch.tensor(net.seen), torch.stack(net.losses)
    out |= {k: torch.cat(v) for k, v in net.notes.items()}
    out["updates"], out["batches"] = (
        torch.tensor(trainer.global_steps_finished),
        torch.tensor(trainer.total_steps_finished),
    )
    save_file({k: v.contiguous() for k, v in out.items()}, f"rank{rank}.tmp")
    backend.cleanup()


if __name__ == "__main__":
    every = {}
    for i, (name, options) in enumerate(RUNS.items()):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run, (name, 29600 + 10 * i, folder), nprocs=options["world"])
        for rank in range(options["world"]):
            for key, t in load_file(f"rank{rank}.tmp").items():
                every[f"{name}.{rank}.{key}"] = t
            os.remove(f"rank{rank}.tmp")
    save_file(every, "two_processes.safetensors", metadata={"torch": torch.__version__})
