"""Writes scalars.safetensors: what Python's + - * / with numbers give, in place too, for each dtype, and the gradients.

Python hands numbers to these operators as tensors, not as scalars; for half precision the results differ in bits.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import operator

import torch
from goldenfile import save_file

here = pathlib.Path(__file__).parent
gen = torch.Generator().manual_seed(5)
operations = {
    "AddScalar": operator.add,
    "SubScalar": operator.sub,
    "RSubScalar": lambda t, x: x - t,
    "MulScalar": operator.mul,
    "DivScalar": operator.truediv,
    "RemainderScalar": operator.mod,
    "FModScalar": torch.fmod,
    "PowScalar": operator.pow,
    "AddScalar_": lambda t, x: t.add_(x),
    "MulScalar_": lambda t, x: t.mul_(x),
    "DivScalar_": lambda t, x: t.div_(x),
    "GtScalar": operator.gt,
    "EqScalar": operator.eq,
}
tensors = {}
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
    name = str(dtype)[6:]
    for shape, x in {
        "vector": torch.randn(37, generator=gen) * 5,
        "number": torch.randn((), generator=gen) * 5,
    }.items():
        x = tensors[f"{name}.{shape}"] = x.to(dtype)
        for operation, f in operations.items():
            for number in (2.5, 0.1, 1 / 3, -7, 3, True, 1e-3):
                leaf = x.clone().requires_grad_(dtype.is_floating_point)
                try:
                    y = f(leaf.clone(), number)
                except RuntimeError:  # a float into integers
                    continue
                key = f"{name}.{shape}.{operation}.{number!r}"
                tensors[key] = y.detach().clone()
                if y.requires_grad:
                    y.backward(torch.full_like(y, 0.75))
                    tensors[key + ".grad"] = leaf.grad
save_file(tensors, here / "scalars.safetensors")
os.chmod(here / "scalars.safetensors", 0o644)
print(len(tensors), "tensors,", os.path.getsize(here / "scalars.safetensors"), "bytes")
