"""2/: a checkpoint as Hezar's Trainer writes it, after two steps of AdamW with ExponentialLR on gradients of 1;
expected.json: the weights after a third.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch

here = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(3)
model = torch.nn.ModuleDict({"in": torch.nn.Linear(2, 4), "out": torch.nn.Linear(4, 2)})
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)


def step():
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    scheduler.step()


step()
step()
folder = os.path.join(here, "2")
os.makedirs(os.path.join(folder, "train"), exist_ok=True)
torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
torch.save(optimizer.state_dict(), os.path.join(folder, "train", "optimizer.pt"))
torch.save(scheduler.state_dict(), os.path.join(folder, "train", "lr_scheduler.pt"))
step()
json.dump(
    {"weights": [v for p in model.parameters() for v in p.flatten().tolist()], "rate": scheduler.get_last_lr()[0]},
    open(os.path.join(here, "expected.json"), "w"),
)
