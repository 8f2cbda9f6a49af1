"""Writes golden/adaptive_*.json: schedulers that follow a measured value. Run: python3 adaptive_schedules.py"""

import random
import torch, transformers
from transformers.optimization import GreedyLR
from common import optimizer, write

rng = random.Random(7)
METRICS = {
    "falls, then rests": [2 * 0.9 ** min(i, 40) for i in range(110)],
    "rises": [0.5 + 0.001 * i for i in range(110)],
    "noise around 1": [1 + 0.1 * rng.gauss(0, 1) for _ in range(110)],
    "falls slowly in noise": [3 - 0.01 * i + 0.02 * rng.gauss(0, 1) for i in range(110)],
    "has NaN and infinities": [
        float("nan") if i % 7 == 3 else float("inf") if i % 11 == 5 else 1 / (i + 1) for i in range(110)
    ],
    "crosses zero": [1 - 0.02 * i for i in range(110)],
}
PLATEAU = [
    {},
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "min_lr": 1e-4},
    {"mode": "max", "patience": 3, "threshold": 0.1},
    {"patience": 4, "cooldown": 5, "threshold_mode": "abs", "threshold": 0.01},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.0, "patience": 1, "factor": 0.9, "eps": 0.01},
]
GREEDY = [
    {},
    {"patience": 2, "min_lr": 1e-3, "max_lr": 0.2},
    {"patience": 0, "factor": 0.5, "min_lr": 0.01, "reset_start": 3},
    {"mode": "max", "patience": 1, "cooldown": 2, "warmup": 3, "threshold_mode": "rel"},
    {"smooth": True, "window_size": 5, "patience": 2, "factor": 0.9},
    {"smooth": True, "patience": 1, "min_lr": 0.04, "reset_start": 0},
    {"patience": 3, "threshold": 0.05, "threshold_mode": "rel", "eps": 1e-3},
]


def record(name, kwargs, make, title, metrics):
    opt = optimizer(0.05)
    s, rates = make(opt, **kwargs), []
    for m in metrics:
        s.step(m)
        rates.append(float(opt.param_groups[0]["lr"]).hex())
    return {"schedule": name, "kwargs": kwargs, "metrics": title, "peak": (0.05).hex(), "rates": rates}


for name, make, settings, module in (
    ("ReduceLROnPlateau", torch.optim.lr_scheduler.ReduceLROnPlateau, PLATEAU, torch),
    ("greedy", GreedyLR, GREEDY, transformers),
):
    write(
        "adaptive_" + name,
        [module],
        [record(name, kw, make, title, m) for kw in settings for title, m in METRICS.items()],
        METRICS,
    )
