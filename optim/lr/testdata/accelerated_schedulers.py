"""Writes golden/accelerated_*.json: pytorch-accelerated's schedulers as its Trainer steps them. Run: python3
accelerated_schedulers.py
"""

import sys, types
from importlib.metadata import version

try:
    from pytorch_accelerated.schedulers import CosineLrScheduler, WSDLrScheduler
except ImportError as missing:
    sys.exit(print(f"pytorch-accelerated 0.1.61 is not here ({missing}): golden/accelerated_*.json stay as they are"))
from common import optimizer, write

module = types.SimpleNamespace(__name__="pytorch-accelerated", __version__=version("pytorch-accelerated"))
epochs = {"total_num_epochs": 10, "num_update_steps_per_epoch": 11}
settings = {
    CosineLrScheduler: [
        epochs | kw
        for kw in (
            {},
            {"num_warmup_epochs": 2},
            {
                "num_warmup_epochs": 1,
                "num_cooldown_epochs": 2,
                "min_lr_ratio": 0.01,
                "warmup_starting_lr_ratio": 0.1,
                "k_decay": 1.0,
            },
            {"num_cooldown_epochs": 3, "lr_min": 1e-3, "k_decay": 1.7},
            {"num_warmup_epochs": 1, "warmup_starting_lr": 1e-4, "lr_min": 0.0},
        )
    ],
    WSDLrScheduler: [
        {"total_steps": 110},
        {"total_steps": 110, "num_warmup_steps": 10, "decay_phase_ratio": 0.3, "lr_min": 0.1},
        {
            "num_epochs": 10,
            "num_update_steps_per_epoch": 11,
            "num_warmup_steps": 0,
            "use_inverse_sqrt_decay": False,
            "lr_min": 0.05,
        },
        {
            "total_steps": 120,
            "num_checkpoints": 3,
            "decay_phase_ratio": 0.25,
            "num_warmup_steps": 5,
            "warmup_starting_lr": 1e-4,
        },
        {"total_steps": 100, "num_checkpoints": 2, "lr_min": 0.01},
        {"total_steps": 110, "num_warmup_steps": 10, "is_continuation_from_checkpoint": True},
    ],
}
for make, all_kwargs in settings.items():
    cases = []
    for kw in all_kwargs:
        for peak in (0.05, 3e-4):
            opt = optimizer(peak)
            s, rates = make(opt, **kw), []
            for _ in range(118):
                rates.append(float(opt.param_groups[0]["lr"]).hex())
                opt.step()
                s.step()
            cases.append({"schedule": make.__name__, "kwargs": kw, "peak": peak.hex(), "updates": 110, "rates": rates})
    write("accelerated_" + make.__name__, [module], cases)
