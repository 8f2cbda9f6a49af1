"""Writes initialize.safetensors: what torch.nn.init draws from seed 7, for every function and some shapes."""

import json, math, os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from torch.nn import init

SHAPES = [(5, 3), (3, 5), (4, 3, 2, 2), (40, 33)]
CASES = {
    "uniform": lambda t: init.uniform_(t, -0.3, 0.7),
    "normal": lambda t: init.normal_(t, 0.5, 0.02),
    "trunc_normal": lambda t: init.trunc_normal_(t, 0.1, 0.5, -1, 0.75),
    "trunc_normal_default": lambda t: init.trunc_normal_(t),
    "constant": lambda t: init.constant_(t, 0.3),
    "zeros": init.zeros_,
    "ones": init.ones_,
    "xavier_uniform": lambda t: init.xavier_uniform_(t, 1.5),
    "xavier_normal": lambda t: init.xavier_normal_(t),
    "kaiming_uniform": lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)),
    "kaiming_uniform_default": lambda t: init.kaiming_uniform_(t),
    "kaiming_normal": lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
    "kaiming_normal_tanh": lambda t: init.kaiming_normal_(t, nonlinearity="tanh"),
    "orthogonal": lambda t: init.orthogonal_(t, 0.7),
}

out = {}
for name, f in CASES.items():
    for i, shape in enumerate(SHAPES):
        torch.manual_seed(7)
        out[f"{name}.{i}"] = f(torch.nn.Parameter(torch.empty(shape))).detach().contiguous()
        out[f"{name}.{i}.next"] = torch.empty((), dtype=torch.int64).random_()
gains = {n: init.calculate_gain(n) for n in ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]}
save_file(out, "initialize.safetensors", metadata={"case": json.dumps({"torch": torch.__version__, "gains": gains})})
os.chmod("initialize.safetensors", 0o644)
