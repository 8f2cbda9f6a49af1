"""Rates and momenta of PyTorch loops whose scheduler steps once an epoch; run it in this folder to write
epoch_rates.json.
"""

import json

import torch
from torch.optim import lr_scheduler as schedulers


def run(name, kwargs, batches, accumulate, epochs, max_updates=0):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    scheduler = getattr(schedulers, name)(optimizer, **kwargs)
    rates, momenta = [], []
    for _ in range(epochs):
        updates = 0
        for i in range(batches):
            if (i + 1) % accumulate == 0 or i + 1 == batches:
                rates.append(optimizer.param_groups[0]["lr"])
                momenta.append(optimizer.param_groups[0]["momentum"])
                optimizer.step()
                updates += 1
                if updates == max_updates:
                    break
        scheduler.step()
    return dict(
        name=name,
        args=kwargs,
        batches=batches,
        accumulate=accumulate,
        epochs=epochs,
        max_updates=max_updates,
        rates=rates,
        momenta=momenta,
    )


cases = [
    run("StepLR", {"step_size": 2}, 4, 1, 5),
    run("StepLR", {"step_size": 1, "gamma": 0.5}, 5, 2, 4),  # a short last window
    run("MultiStepLR", {"milestones": [1, 3]}, 3, 3, 4),
    run("ExponentialLR", {"gamma": 0.7}, 7, 2, 4, max_updates=2),
    run("CosineAnnealingLR", {"T_max": 6}, 3, 1, 6),
    run("LinearLR", {"start_factor": 0.25, "total_iters": 3}, 4, 4, 5),
    run("OneCycleLR", {"max_lr": 0.1, "total_steps": 6}, 5, 2, 5),
]
with open("epoch_rates.json", "w") as f:
    json.dump({"torch": torch.__version__.split("+")[0], "cases": cases}, f, indent=1)
    f.write("\n")
