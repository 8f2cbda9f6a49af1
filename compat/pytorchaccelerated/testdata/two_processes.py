"""Two and three processes on the CPU (gloo) train with pytorch-accelerated: what each sees, its losses, the run
history, the run configuration, the weights and buffers. Writes two_processes.safetensors, with entries run.rank.name.
"""

import json
import os
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["ACCELERATE_USE_CPU"] = "true"

import torch
from goldenfile import save_file
from pytorch_accelerated import Trainer, TrainerPlaceholderValues
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import TensorDataset

RUNS = {
    "plain": dict(world=2, num_epochs=2, per_device_batch_size=4),
    "accumulated": dict(
        world=2, num_epochs=3, per_device_batch_size=3, gradient_accumulation_steps=2, gradient_clip_value=0.05
    ),
    "limited": dict(world=2, num_epochs=9, per_device_batch_size=4, max_num_train_steps=7),
    "three": dict(world=3, num_epochs=2, per_device_batch_size=2, gradient_accumulation_steps=3),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.norm = nn.BatchNorm1d(7)
        self.dropout = nn.Dropout(0.3)
        self.second = nn.Linear(7, 3)

    def forward(self, x):
        return self.second(self.dropout(torch.relu(self.norm(self.first(x)))))


def samples(n):
    i = torch.arange(n * 5, dtype=torch.float32)
    return TensorDataset(torch.sin(i * 0.7).reshape(n, 5), torch.arange(n) % 3)


class Recorded(Trainer):
    seen, losses = [], []

    def calculate_train_batch_loss(self, batch):
        return self.note(batch, super().calculate_train_batch_loss(batch))

    def calculate_eval_batch_loss(self, batch):
        return self.note(batch, super().calculate_eval_batch_loss(batch))

    def note(self, batch, out):
        self.seen.append(batch[0][:, 0].clone())
        self.losses.append(out["loss"].detach().clone())
        return out


def run(rank, name, port):
    options = dict(RUNS[name])
    world = options.pop("world")
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    torch.manual_seed(5 + rank)
    model = Net()
    trainer = Recorded(model, nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters(), lr=0.05), callbacks=())
    workers = {"num_workers": 0}
    trainer.train(
        samples(22),
        eval_dataset=samples(13),
        create_scheduler_fn=lambda opt: torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.5),
        train_dataloader_kwargs=dict(workers),
        eval_dataloader_kwargs=dict(workers),
        **options,
    )
    out = {k: v.clone() for k, v in trainer.get_model().state_dict().items()}
    out["seen"], out["losses"] = torch.cat(trainer.seen), torch.stack(trainer.losses)
    for metric in trainer.run_history.get_metric_names():
        out[metric] = torch.tensor(list(trainer.run_history.get_metric_values(metric)), dtype=torch.float64)
    config = trainer.run_config.to_dict()
    numbers = {k: v for k, v in config.items() if isinstance(v, (int, bool))}
    save_file(out, f"rank{rank}.tmp", metadata={"config": json.dumps(numbers)})
    trainer._accelerator.end_training()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    from safetensors import safe_open

    every, configs = {}, {}
    for name, options in RUNS.items():
        torch.multiprocessing.spawn(run, (name, free_port()), nprocs=options["world"])
        for rank in range(options["world"]):
            for key, t in load_file(f"rank{rank}.tmp").items():
                every[f"{name}.{rank}.{key}"] = t
            with safe_open(f"rank{rank}.tmp", "pt") as f:
                configs[f"{name}.{rank}"] = json.loads(f.metadata()["config"])
            os.remove(f"rank{rank}.tmp")
    save_file(every, "two_processes.safetensors", metadata={"torch": torch.__version__, "configs": json.dumps(configs)})
