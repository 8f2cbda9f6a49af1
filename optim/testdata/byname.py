"""Writes byname.safetensors: what the optimizers that transformers' Trainer makes of its arguments do to two
parameters, and momentum that torch.optim.lr_scheduler moves. byname.json has the cases, and every name of
OptimizerNames.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from transformers import Trainer, TrainingArguments
from transformers.training_args import OptimizerNames

here = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
UPDATES = 6
cases = [
    ("adamw_torch_fused", {}, ""),
    ("adamw_torch", {"adam_beta1": 0.8, "adam_beta2": 0.95, "adam_epsilon": 1e-6, "weight_decay": 0.1}, ""),
    ("adafactor", {"learning_rate": 0.01, "weight_decay": 0.05}, ""),
    ("sgd", {"learning_rate": 0.1, "weight_decay": 0.01}, ""),
    ("sgd", {"learning_rate": 0.1}, "momentum=0.9, nesterov=true"),
    ("sgd", {"learning_rate": 0.1}, "momentum=0.9,dampening=0.3,nesterov=no"),
    ("rmsprop", {"learning_rate": 0.003}, "alpha=0.9, eps=1e-6, momentum=0.5, centered=true"),
    ("rmsprop", {"weight_decay": 0.1}, ""),
    ("adagrad", {"learning_rate": 0.02, "weight_decay": 0.1}, "lr_decay=0.1,eps=1e-8"),
]
torch.manual_seed(0)
tensors = {"init.weight": torch.randn(5, 3), "init.bias": torch.randn(5)}
grads = [{"weight": torch.randn(5, 3), "bias": torch.randn(5)} for _ in range(UPDATES)]
for k, g in enumerate(grads):
    for n, t in g.items():
        tensors[f"grad.{k}.{n}"] = t
out = []


def run(key, optimizer_of, schedule_of=None):
    params = {n: torch.nn.Parameter(tensors["init." + n].clone()) for n in ("weight", "bias")}
    optimizer = optimizer_of(params)
    schedule = schedule_of(optimizer) if schedule_of else None
    momenta, rates = [], []
    for g in grads:
        for n, p in params.items():
            p.grad = g[n].clone()
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group["betas"][0] if "betas" in group else group.get("momentum"))
        optimizer.step()
        if schedule:
            schedule.step()
    for n, p in params.items():
        tensors[f"{key}.{n}"] = p.detach()
    return rates, momenta


for i, (name, kwargs, optim_args) in enumerate(cases):
    a = TrainingArguments(
        output_dir="/tmp/unused", optim=name, optim_args=optim_args or None, report_to=[], use_cpu=True, **kwargs
    )
    cls, options = Trainer.get_optimizer_cls_and_kwargs(a)

    def make(p):
        return cls(
            [{"params": [p["weight"]], "weight_decay": a.weight_decay}, {"params": [p["bias"]], "weight_decay": 0.0}],
            **options,
        )

    run(f"case.{i}", make)
    out.append({"name": name, "arguments": kwargs, "optim_args": optim_args})

from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

moved = []
for key, make in {
    "AdamW": lambda p: torch.optim.AdamW(p.values(), lr=0.01, fused=True),
    "Adam": lambda p: torch.optim.Adam(p.values(), lr=0.01),
    "SGD": lambda p: torch.optim.SGD(p.values(), lr=0.01, momentum=0.9, nesterov=True),
    "SGD without": lambda p: torch.optim.SGD(p.values(), lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p.values(), lr=0.01, momentum=0.5, centered=True),
    "RMSprop without": lambda p: torch.optim.RMSprop(p.values(), lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p.values(), lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p.values(), lr=0.01),
    "Adamax": lambda p: torch.optim.Adamax(p.values(), lr=0.01),
}.items():
    for schedule, of in {
        "OneCycleLR": lambda o: OneCycleLR(o, max_lr=0.01, total_steps=UPDATES),
        "CyclicLR": lambda o: CyclicLR(o, base_lr=0.001, max_lr=0.01, step_size_up=2),
    }.items():
        rates, momenta = run(f"{key}.{schedule}", make, of)
        moved.append(
            {
                "optimizer": key,
                "schedule": schedule,
                "rates": [r.hex() for r in rates],
                "momenta": [m.hex() for m in momenta],
            }
        )
save_file(tensors, os.path.join(here, "byname.safetensors"), {"torch": torch.__version__})
json.dump(
    {"names": [n.value for n in OptimizerNames], "cases": out, "moved": moved},
    open(os.path.join(here, "byname.json"), "w"),
    indent=1,
)
