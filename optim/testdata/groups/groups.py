"""Writes groups.safetensors: 20 updates of the parameters of ../optim.py, in groups whose optimizers differ in more than
the rate and the weight decay.

CASE/param/NAME and CASE/state/NAME.KIND: after the last update. The metadata hold CASE: the param_groups of
state_dict(), of several optimizers one after the other.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from safetensors.torch import load_file

UPDATES, LR = 20, 0.05
here = os.path.dirname(os.path.abspath(__file__))
inputs = load_file(os.path.join(here, "../optim.safetensors"))
names = ["weight", "bias", "scale", "late", "rare", "frozen"]
out, metadata = {}, {"torch": torch.__version__.split("+")[0]}


def gradient(update, name):
    if name == "frozen" or (name == "late" and update < 4) or (name == "rare" and update % 2 == 1):
        return None
    return inputs[f"grad.{update % 5}.{name}"].clone()


def run(case, *parts):
    """parts: an optimizer's class, its options and its groups, each its names and options."""
    params = {name: inputs[f"init.{name}"].clone().requires_grad_(name != "frozen") for name in names}
    optimizers = [
        cls([{"params": [(name, params[name]) for name in group], **settings} for group, settings in groups], **options)
        for cls, options, groups in parts
    ]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    rates = [group["lr"] for group in groups]
    for update in range(UPDATES):
        for name, p in params.items():
            p.grad = gradient(update, name)
        for group, rate in zip(groups, rates):
            group["lr"] = rate * ((UPDATES - update) / UPDATES)
        for optimizer in optimizers:
            optimizer.step()
    for name, p in params.items():
        out[f"{case}/param/{name}"] = p.detach().clone()
        for optimizer in optimizers:
            for kind, value in optimizer.state.get(p, {}).items():
                if value is not None:
                    out[f"{case}/state/{name}.{kind}"] = value.clone()
    metadata[case] = json.dumps([g for optimizer in optimizers for g in optimizer.state_dict()["param_groups"]])


adamw = torch.optim.AdamW
run(
    "Muon and AdamW",
    (torch.optim.Muon, {"lr": LR}, [(["weight", "late"], {})]),
    (
        adamw,
        {"lr": LR / 4, "betas": (0.8, 0.95), "eps": 1e-6, "fused": True},
        [(["bias", "scale"], {}), (["rare", "frozen"], {"weight_decay": 0.2})],
    ),
)
run(
    "betas",
    (
        adamw,
        {"lr": LR, "fused": True},
        [
            (["weight", "bias"], {"betas": (0.7, 0.9), "eps": 1e-5}),
            (["scale", "late", "rare", "frozen"], {}),
        ],
    ),
)
run(
    "momenta",
    (
        torch.optim.SGD,
        {"lr": LR, "momentum": 0.9, "nesterov": True, "foreach": False},
        [
            (["weight"], {}),
            (["bias", "scale", "late"], {"momentum": 0.5, "nesterov": False, "lr": LR * 2}),
            (["rare", "frozen"], {"momentum": 0.0, "nesterov": False}),
        ],
    ),
)
save_file(out, os.path.join(here, "groups.safetensors"), metadata)
