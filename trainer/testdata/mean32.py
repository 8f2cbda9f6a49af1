"""Means of a few float32 numbers as torch.Tensor.mean computes them; run it in this folder to write mean32.json."""

import os

os.environ.update(ATEN_CPU_CAPABILITY="avx2", OMP_NUM_THREADS="1")
import json

import torch

torch.manual_seed(1)
cases = []
for n in list(range(1, 41)) + [63, 64, 65, 100]:
    x = torch.rand(n) * 3
    cases.append({"values": [v.item() for v in x], "mean": x.mean().item()})
json.dump({"torch": torch.__version__, "cases": cases}, open("mean32.json", "w"))
