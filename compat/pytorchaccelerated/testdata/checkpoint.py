"""Writes python.pt, a checkpoint that pytorch-accelerated 0.1.61 saved after one epoch, and python.json, where its
training stood.

PYTHONPATH must have pytorch-accelerated 0.1.61; torch 2.11.0, accelerate 1.15.0.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch  # noqa: E402
from pytorch_accelerated import Trainer  # noqa: E402
from pytorch_accelerated.schedulers import CosineLrScheduler  # noqa: E402

here = os.path.dirname(os.path.abspath(__file__))
model = torch.nn.Linear(2, 1)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[0.5, -0.25]]))
    model.bias.zero_()
x = torch.arange(12, dtype=torch.float32).view(6, 2) / 4
y = x.sum(1, keepdim=True)
trainer = Trainer(
    model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), callbacks=()
)
trainer.train(
    torch.utils.data.TensorDataset(x, y),
    num_epochs=1,
    per_device_batch_size=2,
    create_scheduler_fn=CosineLrScheduler.create_scheduler_fn(),
    train_dataloader_kwargs={"num_workers": 0, "shuffle": False},
)
trainer.save_checkpoint(
    os.path.join(here, "python.pt"), checkpoint_kwargs={"eval_loss_epoch": 0.75, "note": "by Python"}
)
state = trainer.optimizer.state_dict()
with open(os.path.join(here, "python.json"), "w") as f:
    json.dump(
        {
            "weight": model.weight.tolist()[0],
            "bias": model.bias.tolist(),
            "lr": state["param_groups"][0]["lr"],
            "momentum": state["state"][0]["momentum_buffer"].tolist()[0],
        },
        f,
    )
    f.write("\n")
