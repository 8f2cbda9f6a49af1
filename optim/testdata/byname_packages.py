"""Writes byname_packages.json: the param_groups of the optimizers of other packages that transformers' Trainer makes of
its arguments optim, optim_args, learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon and warmup_steps;
what it makes of them is not in testdata/packages.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import json
import logging
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
import bitsandbytes.optim.optimizer as bnb_optimizer
import torch
from transformers import Trainer, TrainingArguments
from transformers.training_args import OptimizerNames

torch.Tensor.cuda = lambda self, *a: self  # lomo_optim puts the states of AdaLomo onto a GPU
two = bnb_optimizer.Optimizer2State.__init__


def named(
    self,
    name,
    params,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    optim_bits=32,
    args=None,
    min_8bit_size=4096,
    *old,
    is_paged=False,
    **more,
):
    two(
        self,
        name,
        params,
        lr,
        betas,
        eps,
        weight_decay,
        optim_bits,
        args,
        min_8bit_size,
        is_paged=is_paged,
        **{k: v for k, v in more.items() if k.startswith(("alpha", "t_"))},
    )


bnb_optimizer.Optimizer2State.__init__ = named  # galore_torch passes arguments that it no longer has; see packages.py

SET = dict(learning_rate=0.01, adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6)
DECAY = dict(SET, weight_decay=0.1)
LOW = "rank=2,update_proj_gap=7,scale=0.5,proj_type=right"
CASES = [
    (n, a, "")
    for n in (
        "adamw_bnb_8bit",
        "adamw_8bit",
        "paged_adamw_8bit",
        "paged_adamw_32bit",
        "lion_8bit",
        "lion_32bit",
        "paged_lion_8bit",
        "paged_lion_32bit",
        "ademamix",
        "ademamix_8bit",
        "paged_ademamix_8bit",
        "paged_ademamix_32bit",
        "rmsprop_bnb",
        "rmsprop_bnb_8bit",
        "rmsprop_bnb_32bit",
        "grokadamw",
        "stable_adamw",
        "schedule_free_adamw",
        "schedule_free_radam",
        "schedule_free_sgd",
    )
    for a in ({}, DECAY)
]
CASES += [
    (n, a, s)
    for n in ("galore_adamw", "galore_adamw_8bit", "galore_adafactor", "apollo_adamw")
    for a, s in (({}, ""), (SET, LOW))
]
CASES += [(n, a, "") for n in ("lomo", "adalomo") for a in ({}, SET)]
CASES += [
    ("ademamix", DECAY, "beta1=0.7,beta2=0.9,beta3=0.99,alpha=3,eps=1e-5,t_alpha=10,t_beta3=20"),
    ("ademamix_8bit", {}, "beta3=0.99, t_alpha=10"),
    ("grokadamw", {}, "alpha_init=0.9,lamb=1.5,gamma=0.2,grokking_signal_decay_rate=0.3,gradient_clipping=0.5"),
    ("stable_adamw", DECAY, "max_lr=0.05,decouple_lr=True,kahan_sum=True"),
    ("schedule_free_adamw", dict(DECAY, warmup_steps=10), "weight_lr_power=1.0,r=0.5"),
    ("schedule_free_radam", DECAY, "weight_lr_power=1.0,r=0.5"),
    ("schedule_free_sgd", dict(DECAY, warmup_steps=10), "weight_lr_power=1.0,r=0.5"),
    ("apollo_adamw", SET, "rank=1,proj=svd,scale_type=tensor,scale=128.0"),
]
out = []
for name, kwargs, optim_args in CASES:
    model = torch.nn.Module()
    model.low, model.norm = torch.nn.Linear(5, 4), torch.nn.LayerNorm(3)
    low = name.startswith(("galore", "apollo"))
    a = TrainingArguments(
        output_dir="/tmp/unused",
        optim=name,
        optim_args=optim_args or None,
        report_to=[],
        use_cpu=True,
        optim_target_modules=["low"] if low else None,
        **kwargs,
    )
    cls, options = Trainer.get_optimizer_cls_and_kwargs(a, model)
    params = [
        {"params": [model.low.weight], "weight_decay": a.weight_decay},
        {"params": [model.low.bias, model.norm.weight, model.norm.bias], "weight_decay": 0.0},
    ]
    params = options.pop("params", options.pop("model", params))
    if name == "stable_adamw":
        options["triton"] = False  # see packages.py
    optimizer = cls(params, **options)
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    out.append({"name": name, "arguments": kwargs, "optim_args": optim_args, "groups": groups})
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "byname_packages.json")
json.dump({"names": sorted(n.value for n in OptimizerNames), "cases": out}, open(path, "w"), indent=1)
print(len(out), "cases")
