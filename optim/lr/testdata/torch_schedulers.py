"""Writes golden/torch_*.json: what each scheduler of torch.optim.lr_scheduler does, step by step. Run: python3
torch_schedulers.py
"""

import torch
from torch.optim import lr_scheduler
from common import optimizer, momentum, write

FUNCTIONS = ("lr_lambda", "scale_fn")  # arguments given as the text of a lambda of x; golden_test.go has them in Go


def make(name, kwargs, opt):
    kwargs = {k: eval("lambda x: " + v) if k in FUNCTIONS else v for k, v in kwargs.items()}
    if "schedulers" in kwargs:
        kwargs["schedulers"] = [make(s["name"], s["kwargs"], opt) for s in kwargs["schedulers"]]
        if name == "ChainedScheduler":
            return lr_scheduler.ChainedScheduler(**kwargs)
    return getattr(lr_scheduler, name)(opt, **kwargs)


def record(name, kwargs, peak, steps=105, betas=False, cycles=False):
    opt = optimizer(peak, betas)
    s = make(name, kwargs, opt)
    case = {"schedule": name, "kwargs": kwargs, "peak": peak.hex(), "updates": 100, "rates": [], "momentum": []}
    for i in range(steps):
        case["rates"].append(float(opt.param_groups[0]["lr"]).hex())
        case["momentum"].append(float(momentum(opt)).hex())
        opt.step()
        if i < steps - 1:
            s.step()
    if not cycles:
        del case["momentum"]
    return case


def part(name, **kwargs):
    return {"name": name, "kwargs": kwargs}


PEAKS = (0.05, 3e-4)
plain = {
    "LambdaLR": [{"lr_lambda": "0.95 ** x"}, {"lr_lambda": "1 / (1 + x)"}],
    "MultiplicativeLR": [{"lr_lambda": "0.95"}, {"lr_lambda": "1 / (1 + x / 100)"}],
    "StepLR": [{"step_size": 3}, {"step_size": 1, "gamma": 0.97}, {"step_size": 30, "gamma": 0.5}],
    "MultiStepLR": [
        {"milestones": [2, 5, 9]},
        {"milestones": [50, 10, 10, 80], "gamma": 0.3},
        {"milestones": [0, 7], "gamma": 0.7},
    ],
    "ConstantLR": [
        {},
        {"factor": 0.3, "total_iters": 40},
        {"factor": 1.0, "total_iters": 1},
        {"factor": 0.7, "total_iters": 0},
    ],
    "LinearLR": [
        {},
        {"start_factor": 0.5, "total_iters": 4},
        {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 100},
        {"start_factor": 0.01, "end_factor": 0.9, "total_iters": 77},
    ],
    "ExponentialLR": [{"gamma": 0.9}, {"gamma": 0.999}, {"gamma": 1.01}],
    "PolynomialLR": [{}, {"total_iters": 100}, {"total_iters": 90, "power": 2.0}, {"total_iters": 100, "power": 0.9}],
    "CosineAnnealingLR": [
        {"T_max": 100},
        {"T_max": 7, "eta_min": 1e-5},
        {"T_max": 10},
        {"T_max": 1},
        {"T_max": 33, "eta_min": 1e-4},
    ],
    "CosineAnnealingWarmRestarts": [
        {"T_0": 10},
        {"T_0": 7, "T_mult": 2, "eta_min": 1e-5},
        {"T_0": 1, "T_mult": 3},
        {"T_0": 100},
    ],
}
for name, settings in plain.items():
    write("torch_" + name, [torch], [record(name, kw, peak) for kw in settings for peak in PEAKS])

cyclic = [
    {"base_lr": 0.001, "max_lr": 0.05, "step_size_up": 10},
    {"base_lr": 0.0, "max_lr": 0.3, "step_size_up": 7, "step_size_down": 13},
    {
        "base_lr": 0.01,
        "max_lr": 0.1,
        "step_size_up": 5,
        "mode": "triangular2",
        "base_momentum": 0.5,
        "max_momentum": 0.99,
    },
    {"base_lr": 1, "max_lr": 5, "step_size_up": 4, "base_momentum": 1, "max_momentum": 5},
    {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 12, "step_size_down": 3, "mode": "exp_range", "gamma": 0.99},
    {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 9, "scale_fn": "1 / (1 + x)"},
    {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 9, "scale_fn": "1 / (1 + x)", "scale_mode": "iterations"},
]
cases = [record("CyclicLR", kw, 0.05, betas=b, cycles=True) for kw in cyclic for b in (False, True)]
write("torch_CyclicLR", [torch], cases + [record("CyclicLR", cyclic[0] | {"cycle_momentum": False}, 0.05)])

one = [
    {"max_lr": 0.1, "total_steps": 104},
    {"max_lr": 25, "final_div_factor": 2, "base_momentum": 1, "max_momentum": 22, "total_steps": 104},
    {"max_lr": 0.1, "total_steps": 104, "anneal_strategy": "linear", "pct_start": 0.1},
    {"max_lr": 0.1, "total_steps": 104, "three_phase": True},
    {
        "max_lr": 0.1,
        "epochs": 10,
        "steps_per_epoch": 11,
        "three_phase": True,
        "anneal_strategy": "linear",
        "pct_start": 0.25,
        "div_factor": 7,
    },
    {"max_lr": 3e-4, "total_steps": 120, "pct_start": 0.001},
    {"max_lr": 3e-4, "total_steps": 120, "pct_start": 0.0},
]
cases = [record("OneCycleLR", kw, 0.05, betas=b, cycles=True) for kw in one for b in (False, True)]
cases += [record("OneCycleLR", one[0] | {"epochs": None, "steps_per_epoch": None, "cycle_momentum": False}, 0.05)]
cases += [record("OneCycleLR", one[0] | {"epochs": 3, "steps_per_epoch": 7}, 0.05, cycles=True)]
write("torch_OneCycleLR", [torch], cases + [record("OneCycleLR", one[0] | {"cycle_momentum": False}, 0.05)])

warm = part("LinearLR", start_factor=0.1, total_iters=10)
firsts = [warm, part("ConstantLR", factor=0.1, total_iters=4), part("ExponentialLR", gamma=0.9)]
thens = [
    part("CosineAnnealingLR", T_max=90),
    part("ExponentialLR", gamma=0.95),
    part("StepLR", step_size=15, gamma=0.3),
    part("MultiStepLR", milestones=[0, 20, 20], gamma=0.5),
    part("PolynomialLR", total_iters=80),
    part("LinearLR", total_iters=30),
    part("ConstantLR", total_iters=30),
    part("CosineAnnealingWarmRestarts", T_0=9, T_mult=2),
    part("LambdaLR", lr_lambda="1 / (1 + x)"),
    part("MultiplicativeLR", lr_lambda="0.95"),
    part("ConstantLR", factor=0.5, total_iters=0),
]
cases = [record("SequentialLR", {"schedulers": [a, b], "milestones": [10]}, 0.05) for a in firsts[:1] for b in thens]
cases += [record("SequentialLR", {"schedulers": [a, thens[0], thens[1]], "milestones": [5, 60]}, 3e-4) for a in firsts]
cases += [
    record("SequentialLR", {"schedulers": [warm, b], "milestones": [20]}, 0.05, cycles=True)
    for b in (
        part("OneCycleLR", max_lr=0.4, total_steps=100),
        part("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=9),
    )
]
cases += [
    record(
        "SequentialLR",
        {
            "schedulers": [
                part("OneCycleLR", max_lr=0.4, total_steps=120),
                part("OneCycleLR", max_lr=0.9, total_steps=100, three_phase=True, max_momentum=0.7),
            ],
            "milestones": [30],
        },
        0.05,
        cycles=True,
    )
]
cases += [
    record("SequentialLR", {"schedulers": [part(*p[:1], **p[1]), thens[1]], "milestones": [30]}, 0.05)
    for p in (
        ("SequentialLR", {"schedulers": [warm, thens[2]], "milestones": [10]}),
        ("ChainedScheduler", {"schedulers": [warm, thens[1]]}),
    )
]
write("torch_SequentialLR", [torch], cases)

chains = [
    [warm, part("ExponentialLR", gamma=0.97)],
    [part("ConstantLR", factor=0.3, total_iters=12), part("ExponentialLR", gamma=0.99), part("StepLR", step_size=20)],
    [part("CosineAnnealingLR", T_max=100), warm],
    [part("ExponentialLR", gamma=0.9), part("LambdaLR", lr_lambda="1 / (1 + x)")],
    [
        part("SequentialLR", schedulers=[warm, thens[0]], milestones=[10]),
        part("MultiStepLR", milestones=[40, 70], gamma=0.5),
    ],
    [part("PolynomialLR", total_iters=100), part("CosineAnnealingWarmRestarts", T_0=10)],
    [part("ExponentialLR", gamma=0.99)],
]
cases = [record("ChainedScheduler", {"schedulers": c}, peak) for c in chains for peak in PEAKS]
cases += [
    record(
        "ChainedScheduler",
        {"schedulers": [part("ExponentialLR", gamma=0.9), part("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=9)]},
        0.05,
        cycles=True,
    )
]
write("torch_ChainedScheduler", [torch], cases)
