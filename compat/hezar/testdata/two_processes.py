"""Two and three processes on the CPU (gloo) train with Hezar 1.0.0: what each sees, its losses, the norms and rates of
its updates, the weights. Writes two_processes.safetensors, with entries run.rank.name.

Hezar's Trainer does not train on several processes by itself: train() ends with "'DistributedDataParallel' object has
no attribute 'num_parameters'", and so do the model's forward (its arguments are looked up in that of
DistributedDataParallel), compute_loss and save. Here the wrapper has the attributes of the model, and forward looks
at the model's own. There is no evaluation, which ends with an error for a gathered loss is no single number, and no
checkpoint, which every process would write into the same files. The Accelerator is Hezar's own, but for parameters
without a gradient, which it finds, as here: three processes add up in the order of the buckets, which
DistributedDataParallel makes again where it does not look for them.
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["ACCELERATE_USE_CPU"] = "true"

import importlib.util

if importlib.util.find_spec("hezar") is None:
    print("hezar==1.0.0 is not installed; its recordings stay as they are")
    sys.exit(0)

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from goldenfile import save_file
from hezar.models import Model, ModelConfig
from hezar.preprocessors import PreprocessorsContainer
from hezar.trainer import Trainer, TrainerConfig
from safetensors.torch import load_file

RUNS = {
    "plain": dict(world=2, batch_size=2, num_epochs=2),
    "accumulated": dict(
        world=2,
        batch_size=2,
        num_epochs=3,
        gradient_accumulation_steps=4,
        optimizer="adamw",
        weight_decay=0.1,
        lr_scheduler="exponential",
        lr_scheduler_kwargs={"gamma": 0.9},
        lr_scheduling_steps=2,
    ),
    "three": dict(
        world=3, batch_size=1, num_epochs=2, gradient_accumulation_steps=3, optimizer="sdg", dataloader_shuffle=False
    ),
}


class Parallel(torch.nn.parallel.DistributedDataParallel):
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


torch.nn.parallel.DistributedDataParallel = Parallel


class Tiny(Model):
    """hezar_test.go has the same."""

    def __init__(self, config):
        super().__init__(config=config)
        torch.manual_seed(1)
        self.add_module("in", torch.nn.Linear(2, 4))
        self.add_module("out", torch.nn.Linear(4, 2))

    def forward(self, x, **kwargs):
        h = torch.nn.functional.dropout(torch.tanh(getattr(self, "in")(x)), 0.3, self.training)
        return {"logits": self.out(h)}

    def compute_loss(self, logits, labels):
        return torch.nn.functional.cross_entropy(logits, labels)


class Cloud:
    def __len__(self):
        return 22

    def __getitem__(self, i):
        return i


def collate(rows):
    x = torch.tensor([[i % 5 - 2, i % 3 - 1] for i in rows], dtype=torch.float32)
    return {"x": x, "labels": torch.tensor([i % 2 for i in rows]), "rows": torch.tensor(rows)}


class Recorded(Trainer):
    seen, losses, norms, rates = [], [], [], []

    def forward(self, batch):
        return self.model(x=batch["x"])

    def training_step(self, batch):
        self.seen.append(batch["rows"])
        out = super().training_step(batch)
        self.losses.append(out["loss"].clone())
        return out

    def save(self, path, **options):
        pass


def run(rank, name, port):
    options = dict(RUNS[name])
    world = options.pop("world")
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = TrainerConfig(
            output_dir=folder,
            task="text_classification",
            use_cpu=True,
            learning_rate=0.05,
            metrics=["accuracy"],
            do_evaluate=False,
            save_enabled=False,
            **options,
        )
        accelerator = Accelerator(
            cpu=True,
            step_scheduler_with_optimizer=False,
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
        trainer = Recorded(
            model=Tiny(ModelConfig()),
            config=config,
            train_dataset=Cloud(),
            data_collator=collate,
            preprocessor=PreprocessorsContainer(),
            accelerator=accelerator,
        )

        def before(optimizer, *_):
            trainer.norms.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters()]).norm())
            trainer.rates.append(torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64))

        trainer.optimizer.optimizer.register_step_pre_hook(before)
        trainer.train()
        trainer.tensorboard.close()
    out = {k: v.clone() for k, v in trainer.model.module.state_dict().items()}
    out |= {
        "seen": torch.cat(trainer.seen),
        **{k: torch.stack(getattr(trainer, k)) for k in ("losses", "norms", "rates")},
    }
    save_file(out, f"rank{rank}.tmp")
    trainer.accelerator.end_training()


if __name__ == "__main__":
    every = {}
    for i, (name, options) in enumerate(RUNS.items()):
        torch.multiprocessing.spawn(run, (name, 29700 + i), nprocs=options["world"])
        for rank in range(options["world"]):
            for key, t in load_file(f"rank{rank}.tmp").items():
                every[f"{name}.{rank}.{key}"] = t
            os.remove(f"rank{rank}.tmp")
    save_file(every, "two_processes.safetensors", metadata={"torch": torch.__version__})
