"""Writes state/: what Accelerate 1.15 saves of a small model after three of nine updates, and expected.safetensors with
what it ends with. pythonstate_test.go continues from it.
"""

import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from goldenfile import save_file

here = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)
set_seed(5)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
x = torch.randn(9, 5, 4, generator=torch.Generator().manual_seed(1))
out = here / "state"
shutil.rmtree(out, ignore_errors=True)
for i in range(9):
    accelerator.backward(model(x[i]).square().mean())
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    if i == 2:
        accelerator.save_state(str(out / "saved"))
for file in (out / "saved").iterdir():
    os.chmod(file, 0o644)
save_file(
    {
        "x": x,
        "next": torch.rand(4),
        **{f"weights/{n}": p.detach().clone() for n, p in model.named_parameters()},
        **{f"moments/{i}.{k}": v for i, s in optimizer.state_dict()["state"].items() for k, v in s.items()},
    },
    str(out / "expected.safetensors"),
)
