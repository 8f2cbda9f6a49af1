"""Writes golden/transformers_*.json: rates of transformers.get_scheduler. Run: python3 transformers_schedules.py"""

import torch, transformers
from transformers import TrainingArguments, get_scheduler
from common import optimizer, write

settings = {
    "constant": [{}],
    "constant_with_warmup": [{}],
    "linear": [{}],
    "cosine": [{}, {"num_cycles": 2.5}],
    "cosine_with_restarts": [{}, {"num_cycles": 2}, {"num_cycles": 7}],
    "polynomial": [{}, {"lr_end": 1e-5, "power": 2.0}, {"lr_end": 0.0, "power": 0.5}],
    "inverse_sqrt": [{}, {"timescale": 30}],
    "cosine_with_min_lr": [{"min_lr": 1e-5}, {"min_lr_rate": 0.1}, {"min_lr_rate": 0.0, "num_cycles": 1.5}],
    "cosine_warmup_with_min_lr": [
        {"min_lr": 1e-5},
        {"min_lr_rate": 0.1, "warmup_lr_rate": 0.01},
        {"min_lr_rate": 0.2, "warmup_lr_rate": 0.0, "num_cycles": 1},
    ],
    "warmup_stable_decay": [
        {"num_decay_steps": 20, "warmup_type": w, "decay_type": d}
        for w in ("linear", "cosine", "1-sqrt")
        for d in ("linear", "cosine", "1-sqrt")
    ]
    + [
        {"num_decay_steps": 30, "num_stable_steps": 40, "min_lr_ratio": 0.1},
        {"num_decay_steps": 0},
        {"num_decay_steps": 50, "num_cycles": 1.5, "min_lr_ratio": 0.05, "num_stable_steps": 0},
    ]
    + [{"num_decay_steps": 95, "decay_type": d} for d in ("linear", "cosine", "1-sqrt")]  # more than the warmup leaves
    + [{"num_decay_steps": 130, "min_lr_ratio": 0.2}],  # more than the run has
}
for kind, kwargs in settings.items():
    cases = []
    for kw in kwargs:
        for peak, warmup in ((5e-5, 0), (0.3, 13), (2e-4, 0.1)):
            if kind == "constant" and warmup:
                continue
            steps = TrainingArguments.get_warmup_steps(type("A", (), {"warmup_steps": warmup}), 101)
            opt = optimizer(peak)
            s = get_scheduler(kind, opt, num_warmup_steps=steps, num_training_steps=101, scheduler_specific_kwargs=kw)
            rates = []
            for _ in range(105):
                rates.append(float(opt.param_groups[0]["lr"]).hex())
                opt.step()
                s.step()
            cases.append(
                {"schedule": kind, "kwargs": kw, "warmup": warmup, "peak": peak.hex(), "updates": 101, "rates": rates}
            )
    write("transformers_" + kind, [transformers, torch], cases)

# After a scheduler that moves the base of the group, the lowest rate is still counted against the rate of the
# optimizer.
cases = []
for kind, kw in (
    ("linear", {}),
    ("polynomial", {"lr_end": 1e-5, "power": 0.7}),
    ("cosine_with_min_lr", {"min_lr": 1e-3}),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-3}),
    ("inverse_sqrt", {}),
):
    for base_lr in (0.0, 0.01):
        cyclic = {"base_lr": base_lr, "max_lr": 0.3, "step_size_up": 37, "cycle_momentum": False}
        opt = optimizer(0.3)
        first = torch.optim.lr_scheduler.CyclicLR(opt, **cyclic)
        then = get_scheduler(kind, opt, num_warmup_steps=3, num_training_steps=101, scheduler_specific_kwargs=kw)
        s = torch.optim.lr_scheduler.SequentialLR(opt, [first, then], [20])
        rates = []
        for _ in range(105):
            rates.append(float(opt.param_groups[0]["lr"]).hex())
            opt.step()
            s.step()
        parts = [{"name": "CyclicLR", "kwargs": cyclic}, {"name": kind, "kwargs": kw | {"num_warmup_steps": 3}}]
        cases.append(
            {
                "schedule": "SequentialLR",
                "kwargs": {"schedulers": parts, "milestones": [20]},
                "peak": (0.3).hex(),
                "updates": 101,
                "rates": rates,
            }
        )
write("transformers_in_SequentialLR", [transformers, torch], cases)
