"""Writes golden/timm_*.json: timm's schedulers as its train.py steps them, on updates. Run: python3 timm_schedulers.py"""

import random, sys, warnings

try:
    import timm, timm.scheduler
    from timm.scheduler.wsd_lr import WSDLRScheduler
except ImportError as missing:
    sys.exit(print(f"timm 1.0.31 and torchvision are not here ({missing}): golden/timm_*.json stay as they are"))
from common import optimizer, write

warnings.simplefilter("ignore")
warm = {"warmup_t": 10, "warmup_lr_init": 1e-5}
cycles = [
    {"t_initial": 100},
    {"t_initial": 90, "lr_min": 1e-4} | warm,
    {"t_initial": 80, "lr_min": 1e-5, "warmup_prefix": True} | warm,
    {"t_initial": 20, "cycle_limit": 3, "cycle_decay": 0.5} | warm,
    {"t_initial": 10, "cycle_mul": 2.0, "cycle_limit": 3, "cycle_decay": 0.7, "warmup_prefix": True} | warm,
    {"t_initial": 60, "cycle_mul": 0.5, "cycle_limit": 4},
]
decay = [{"decay_rate": 0.9}, {"decay_rate": 0.1} | warm, {"decay_rate": 0.97, "warmup_prefix": False} | warm]
settings = {
    "CosineLRScheduler": cycles
    + [
        {"t_initial": 100, "k_decay": 1.5},
        {"t_initial": 100, "noise_range_t": 20},
        {"t_initial": 100, "noise_range_t": [30, 80], "noise_pct": 0.2, "noise_std": 0.5, "noise_seed": 7},
    ],
    "PolyLRScheduler": cycles + [{"t_initial": 100, "power": 2.0, "k_decay": 0.8}, {"t_initial": 100, "power": 1.0}],
    "TanhLRScheduler": cycles + [{"t_initial": 100, "lb": -4.0, "ub": 4.0}],
    "StepLRScheduler": [d | {"decay_t": t} for d in decay for t in (30, 2.4)],
    "MultiStepLRScheduler": [d | {"decay_t": t} for d in decay for t in ([1, 30, 60], [20, 20, 90])],
    "WSDLRScheduler": [
        {"t_initial": 90, "decay_t": 30, "decay_fn": f, "lr_min": 1e-5} | warm
        for f in ("linear", "1-sqrt", "cosine", "power", "exp")
    ]
    + [
        {"t_initial": 100, "decay_t": 20, "stable_fn": "rsqrt", "lr_min": 1e-3} | warm,
        {
            "t_initial": 100,
            "decay_t": 20,
            "stable_fn": "power",
            "stable_power": 0.3,
            "stable_timescale": 5.0,
            "decay_power": 2.0,
            "decay_fn": "power",
        },
    ],
}
for name, all_kwargs in settings.items():
    cases = []
    for kw in all_kwargs:
        for peak in (0.05, 3e-4):
            opt = optimizer(peak)
            make = WSDLRScheduler if name == "WSDLRScheduler" else getattr(timm.scheduler, name)
            s, rates = make(opt, t_in_epochs=False, **kw), []
            for update in range(1, 105):
                rates.append(float(opt.param_groups[0]["lr"]).hex())
                s.step_update(update)
            cases.append({"schedule": name, "kwargs": kw, "peak": peak.hex(), "updates": 100, "rates": rates})
    write("timm_" + name, [timm], cases)

rng, cases = random.Random(3), []
metrics = [0.5 + 0.003 * i + 0.05 * rng.gauss(0, 1) for i in range(110)]
for kw in (
    {},
    {"patience_t": 2, "mode": "min"} | warm,
    {"patience_t": 0, "decay_rate": 0.5, "lr_min": 1e-3, "cooldown_t": 3, "threshold": 0.01},
):
    opt = optimizer(0.05)
    s, rates = timm.scheduler.PlateauLRScheduler(opt, **kw), []
    for epoch, m in enumerate(metrics):
        s.step(epoch + 1, m)
        rates.append(float(opt.param_groups[0]["lr"]).hex())
    cases.append(
        {
            "schedule": "PlateauLRScheduler",
            "kwargs": kw,
            "peak": (0.05).hex(),
            "metrics": "rises in noise",
            "rates": rates,
        }
    )
write("timm_PlateauLRScheduler", [timm], cases, {"rises in noise": metrics})
