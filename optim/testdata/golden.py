"""Writes golden/CASE.safetensors, one file for each case: 20 updates of an optimizer on given gradients, and
inputs.safetensors.

inputs.safetensors: init.NAME is the parameter before, grad.K.NAME its gradient in updates K, K+5, ... Parameter "late"
has its first gradient in update 4, "rare" has none in odd updates, "frozen" never. A case: param/NAME and
state/NAME.KIND after the updates. Its metadata say which Go settings repeat it: optimizer, options (JSON of the Go
struct's fields), peak (the rate falls linearly from it; empty: none is set), params, dtypes, and low_rank, the
parameters of that group. A new case is a line of CASES; the test finds its file.
"""

import json
import math
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from transformers.optimization import Adafactor as AdafactorHF

UPDATES = 20
SHAPES = {
    "weight": (23, 11),
    "bias": (11,),
    "scale": (),
    "late": (5, 3),
    "rare": (33,),
    "cube": (2, 3, 4),
    "frozen": (4,),
}
MATRICES = ["weight", "late"]
generator = torch.Generator().manual_seed(2011)
init = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
grads = [
    {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items() if name != "frozen"}
    for _ in range(5)
]
# Elements that are exactly zero, as padding and dead units give.
for g in grads[1:3]:
    g["bias"][:3] = 0


def gradient(update, name):
    if name == "frozen" or (name == "late" and update < 4) or (name == "rare" and update % 2 == 1):
        return None
    return grads[update % 5][name]


class PerParameter(torch.optim.Optimizer):
    """An optimizer given by its published formula: update(p, g, state, group), once for each parameter with a gradient."""

    def __init__(self, groups, lr=None, **options):
        super().__init__(groups, {"lr": lr, **options})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], group)


class Lion(PerParameter):
    # Chen and others, algorithm 2, with the operators of lion-pytorch.
    def update(self, p, g, s, o):
        if not s:
            s["exp_avg"] = torch.zeros_like(p)
        g = -g if o.get("maximize") else g
        p.mul_(1 - o["lr"] * o["weight_decay"])
        p.add_(s["exp_avg"].clone().mul_(o["betas"][0]).add_(g, alpha=1 - o["betas"][0]).sign_(), alpha=-o["lr"])
        s["exp_avg"].mul_(o["betas"][1]).add_(g, alpha=1 - o["betas"][1])


class Lamb(PerParameter):
    # You and others, algorithm 2; which parameters are adapted as in timm.
    def update(self, p, g, s, o):
        if not s:
            s.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        s["step"] += 1
        b1, b2 = o["betas"]
        s["exp_avg"].mul_(b1).add_(g, alpha=1 - b1)
        s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2)
        c1, c2 = (1 - b1 ** s["step"], 1 - b2 ** s["step"]) if o.get("bias_correction", True) else (1.0, 1.0)
        update = (s["exp_avg"] / c1).div_((s["exp_avg_sq"].sqrt() / math.sqrt(c2)).add_(o["eps"]))
        if o["weight_decay"] != 0:
            update.add_(p, alpha=o["weight_decay"])
        if o["weight_decay"] != 0 or o.get("always_adapt"):
            w, u = p.norm(2), update.norm(2)
            ratio = torch.where(w > 0, torch.where(u > 0, w / u, torch.ones_like(w)), torch.ones_like(w))
            if o.get("trust_clip"):
                ratio = ratio.clamp(max=1)
            update.mul_(ratio)
        p.add_(update, alpha=-o["lr"])


class Projector:
    # Zhao and others, algorithm 1, with the four ways of galore_torch's galore_projector.py.
    def __init__(self, rank, update_proj_gap, scale, proj_type):
        self.rank, self.gap, self.scale, self.kind = rank, update_proj_gap, scale, proj_type

    def project(self, g, step):
        wide = g.shape[0] < g.shape[1]
        self.side = {"std": "left" if wide else "right", "reverse_std": "right" if wide else "left"}.get(
            self.kind, self.kind
        )
        if step % self.gap == 0:
            u, _, vh = torch.linalg.svd(g.float(), full_matrices=False)
            self.left, self.right = u[:, : self.rank].type(g.dtype), vh[: self.rank, :].type(g.dtype)
        if self.side == "full":
            return torch.matmul(self.left.t(), g) @ self.right.t()
        return torch.matmul(g, self.right.t()) if self.side == "right" else torch.matmul(self.left.t(), g)

    def back(self, u):
        if self.side == "full":
            return (torch.matmul(self.left, u) @ self.right) * self.scale
        return (torch.matmul(u, self.right) if self.side == "right" else torch.matmul(self.left, u)) * self.scale

    def tensors(self):
        if self.side == "full":
            return {"projector_left": self.left, "projector_right": self.right}
        return {"projector": self.right if self.side == "right" else self.left}


LOW = ("rank", "update_proj_gap", "scale", "proj_type")


def projector(s, o):
    if "rank" not in o:
        return None
    return s.setdefault("projector", Projector(*(o[k] for k in LOW)))


class GaLoreAdamW(PerParameter):
    # The operators of galore_torch/adamw.py.
    def update(self, p, g, s, o):
        step = s.setdefault("step", 0)
        low = projector(s, o)
        g = low.project(g, step) if low else g
        if "exp_avg" not in s:
            s.update(exp_avg=torch.zeros_like(g), exp_avg_sq=torch.zeros_like(g))
        s["step"] += 1
        b1, b2 = o["betas"]
        s["exp_avg"].mul_(b1).add_(g, alpha=1.0 - b1)
        s["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1.0 - b2)
        size = o["lr"]
        if o.get("correct_bias", True):
            size = size * math.sqrt(1.0 - b2 ** s["step"]) / (1.0 - b1 ** s["step"])
        update = s["exp_avg"] / s["exp_avg_sq"].sqrt().add_(o["eps"])
        p.add_(low.back(update) if low else update, alpha=-size)
        if o["weight_decay"] > 0:
            p.add_(p, alpha=-o["lr"] * o["weight_decay"])


class GaLoreAdafactor(PerParameter):
    # The operators of galore_torch/adafactor.py, for relative_step=False and scale_parameter=False.
    def update(self, p, g, s, o):
        step = s.setdefault("step", 0)
        low = projector(s, o)
        g = low.project(g, step) if low else g
        if step == 0:
            if g.dim() >= 2:
                s.update(
                    exp_avg_sq_row=torch.zeros(g.shape[:-1]), exp_avg_sq_col=torch.zeros(g.shape[:-2] + g.shape[-1:])
                )
            else:
                s.update(exp_avg_sq=torch.zeros_like(g))
            if o.get("beta1") is not None:
                s.update(exp_avg=torch.zeros_like(g))
        s["step"] += 1
        b = 1.0 - math.pow(s["step"], -0.8)
        update = g**2 + 1e-30
        if g.dim() >= 2:
            s["exp_avg_sq_row"].mul_(b).add_(update.mean(dim=-1), alpha=1.0 - b)
            s["exp_avg_sq_col"].mul_(b).add_(update.mean(dim=-2), alpha=1.0 - b)
            update = AdafactorHF._approx_sq_grad(s["exp_avg_sq_row"], s["exp_avg_sq_col"])
            update.mul_(g)
        else:
            s["exp_avg_sq"].mul_(b).add_(update, alpha=1.0 - b)
            update = s["exp_avg_sq"].rsqrt().mul_(g)
        update.div_(AdafactorHF._rms(update).clamp_(min=1.0))
        update.mul_(o["lr"])
        if o.get("beta1") is not None:
            s["exp_avg"].mul_(o["beta1"]).add_(update, alpha=1 - o["beta1"])
            update = s["exp_avg"]
        update = low.back(update) if low else update
        if o["weight_decay"] != 0:
            p.add_(p, alpha=-o["weight_decay"] * o["lr"])
        p.add_(-update)


def run(case, optimizer, go, peak, options, params=None, dtypes=None, low_rank=None):
    names = params or list(SHAPES)
    dtypes = dtypes or {}
    values = {
        n: init[n].to(getattr(torch, dtypes.get(n, "float32"))).clone().requires_grad_(n != "frozen") for n in names
    }
    groups = [{"params": [values[n] for n in names]}]
    if low_rank:
        options, low = {k: v for k, v in options.items() if k not in LOW}, {k: options[k] for k in LOW}
        groups = [
            {"params": [values[n] for n in names if n not in low_rank]},
            {"params": [values[n] for n in low_rank], **low},
        ]
    opt = optimizer(groups, lr=peak, **options)
    for update in range(UPDATES):
        for name, p in values.items():
            g = gradient(update, name)
            p.grad = None if g is None else g.to(p.dtype).clone()
        if peak is not None:
            for group in opt.param_groups:
                group["lr"] = peak * ((UPDATES - update) / UPDATES)
        opt.step()
    out = {}
    for name, p in values.items():
        out[f"param/{name}"] = p.detach().clone()
        state = dict(opt.state.get(p, {}))
        state.pop("RMS", None)
        if isinstance(state.get("projector"), Projector):
            state.update(state.pop("projector").tensors())
        for kind, value in state.items():
            if value is not None:
                out[f"state/{name}.{kind}"] = torch.as_tensor(
                    value, dtype=torch.float32 if kind == "step" else None
                ).clone()
    metadata = {
        "torch": torch.__version__.split("+")[0],
        "optimizer": go[0],
        "options": json.dumps(go[1]),
        "peak": "" if peak is None else repr(peak),
        "params": json.dumps(names),
        "dtypes": json.dumps(dtypes),
        "low_rank": json.dumps(low_rank or []),
    }
    path = os.path.join(os.path.dirname(__file__), "golden", case + ".safetensors")
    save_file({k: v.contiguous() for k, v in out.items()}, path, metadata=dict(sorted(metadata.items())))
    os.chmod(path, 0o644)
    CASES_WRITTEN.append(case)


CASES_WRITTEN = []
T = torch.optim
HALF = {"bias": "float64", "rare": "bfloat16", "late": "bfloat16", "cube": "float64"}


def both(case, optimizer, name, peak, options=None, go=None, **more):
    """The case with foreach=False and with foreach=True."""
    for implementation, foreach in (("for-loop", False), ("foreach", True)):
        run(
            f"{case}_{implementation}",
            optimizer,
            (name, {**(go or {}), "Implementation": implementation}),
            peak,
            {**(options or {}), "foreach": foreach},
            **more,
        )


both("adamw", T.AdamW, "AdamW", 0.05)
both(
    "adamw_amsgrad",
    T.AdamW,
    "AdamW",
    0.05,
    dict(amsgrad=True, maximize=True, betas=(0.8, 0.95), weight_decay=0.1),
    dict(AMSGrad=True, Maximize=True, Beta1=0.8, Beta2=0.95, WeightDecay=0.1),
)
both("adamw_dtypes", T.AdamW, "AdamW", 0.05, dtypes=HALF)
both("adam", T.Adam, "Adam", 0.05, dict(weight_decay=0.02, amsgrad=True), dict(WeightDecay=0.02, AMSGrad=True))
both(
    "adam_decoupled",
    T.Adam,
    "Adam",
    0.05,
    dict(weight_decay=0.1, decoupled_weight_decay=True, betas=(0.8, 0.95)),
    dict(WeightDecay=0.1, DecoupledDecay=True, Beta1=0.8, Beta2=0.95),
)
both("sgd", T.SGD, "SGD", 0.05, dict(weight_decay=0.02), dict(WeightDecay=0.02))
both(
    "sgd_momentum",
    T.SGD,
    "SGD",
    0.05,
    dict(momentum=0.9, dampening=0.3, maximize=True),
    dict(Momentum=0.9, Dampening=0.3, Maximize=True),
)
both(
    "sgd_nesterov",
    T.SGD,
    "SGD",
    0.05,
    dict(momentum=0.9, nesterov=True, weight_decay=0.01),
    dict(Momentum=0.9, Nesterov=True, WeightDecay=0.01),
)
both(
    "sgd_dtypes",
    T.SGD,
    "SGD",
    0.05,
    dict(momentum=0.9, weight_decay=0.1),
    dict(Momentum=0.9, WeightDecay=0.1),
    dtypes=HALF,
)
both("adamax", T.Adamax, "Adamax", 0.05)
both(
    "adamax_options",
    T.Adamax,
    "Adamax",
    0.05,
    dict(betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, maximize=True),
    dict(Beta1=0.8, Beta2=0.95, Eps=1e-4, WeightDecay=0.1, Maximize=True),
)
both("adamax_dtypes", T.Adamax, "Adamax", 0.05, dtypes=HALF)
both("nadam", T.NAdam, "NAdam", 0.05)
both(
    "nadam_decay",
    T.NAdam,
    "NAdam",
    0.05,
    dict(weight_decay=0.1, momentum_decay=0.02, maximize=True),
    dict(WeightDecay=0.1, MomentumDecay=0.02, Maximize=True),
)
both(
    "nadam_decoupled",
    T.NAdam,
    "NAdam",
    0.05,
    dict(weight_decay=0.1, decoupled_weight_decay=True, betas=(0.8, 0.95)),
    dict(WeightDecay=0.1, DecoupledDecay=True, Beta1=0.8, Beta2=0.95),
)
both("nadam_dtypes", T.NAdam, "NAdam", 0.05, dtypes=HALF)
both("radam", T.RAdam, "RAdam", 0.05)
both(
    "radam_decay",
    T.RAdam,
    "RAdam",
    0.05,
    dict(weight_decay=0.1, betas=(0.8, 0.9), eps=1e-4),
    dict(WeightDecay=0.1, Beta1=0.8, Beta2=0.9, Eps=1e-4),
)
both(
    "radam_decoupled",
    T.RAdam,
    "RAdam",
    0.05,
    dict(weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    dict(WeightDecay=0.1, DecoupledDecay=True, Maximize=True),
)
both("radam_dtypes", T.RAdam, "RAdam", 0.05, dtypes=HALF)
both("adagrad", T.Adagrad, "Adagrad", 0.05)
both(
    "adagrad_options",
    T.Adagrad,
    "Adagrad",
    0.05,
    dict(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-5, maximize=True),
    dict(LRDecay=0.1, WeightDecay=0.1, InitialAccumulator=0.5, Eps=1e-5, Maximize=True),
)
both("adagrad_dtypes", T.Adagrad, "Adagrad", 0.05, dtypes=HALF)
run("adagrad_fused", T.Adagrad, ("Adagrad", {}), 0.05, dict(fused=True))
run(
    "adagrad_fused_options",
    T.Adagrad,
    ("Adagrad", dict(Implementation="fused", LRDecay=0.1, WeightDecay=0.1, InitialAccumulator=0.5, Maximize=True)),
    0.05,
    dict(fused=True, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, maximize=True),
)
both("adadelta", T.Adadelta, "Adadelta", 1.0)
both(
    "adadelta_options",
    T.Adadelta,
    "Adadelta",
    0.5,
    dict(rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True),
    dict(Rho=0.8, Eps=1e-4, WeightDecay=0.1, Maximize=True),
)
both("adadelta_dtypes", T.Adadelta, "Adadelta", 1.0, dtypes=HALF)
both("rmsprop", T.RMSprop, "RMSprop", 0.05)
both(
    "rmsprop_momentum",
    T.RMSprop,
    "RMSprop",
    0.05,
    dict(momentum=0.9, weight_decay=0.1),
    dict(Momentum=0.9, WeightDecay=0.1),
)
both(
    "rmsprop_centered",
    T.RMSprop,
    "RMSprop",
    0.05,
    dict(centered=True, alpha=0.9, eps=1e-3, maximize=True),
    dict(Centered=True, Alpha=0.9, Eps=1e-3, Maximize=True),
)
both(
    "rmsprop_centered_momentum",
    T.RMSprop,
    "RMSprop",
    0.05,
    dict(centered=True, momentum=0.5),
    dict(Centered=True, Momentum=0.5),
)
both(
    "rmsprop_dtypes",
    T.RMSprop,
    "RMSprop",
    0.05,
    dict(momentum=0.9, centered=True),
    dict(Momentum=0.9, Centered=True),
    dtypes=HALF,
)
both("rprop", T.Rprop, "Rprop", 0.05)
both(
    "rprop_options",
    T.Rprop,
    "Rprop",
    0.05,
    dict(etas=(0.4, 1.5), step_sizes=(1e-3, 0.2), maximize=True),
    dict(EtaMinus=0.4, EtaPlus=1.5, MinStep=1e-3, MaxStep=0.2, Maximize=True),
)
both("rprop_dtypes", T.Rprop, "Rprop", 0.05, dtypes=HALF)
both("asgd_dtypes", T.ASGD, "ASGD", 0.05, dict(lambd=0.01, t0=5), dict(Lambda=0.01, T0=5), dtypes=HALF)
both("asgd", T.ASGD, "ASGD", 0.05)
both(
    "asgd_averaging",
    T.ASGD,
    "ASGD",
    0.05,
    dict(lambd=0.01, alpha=0.6, t0=5, weight_decay=0.1),
    dict(Lambda=0.01, Alpha=0.6, T0=5, WeightDecay=0.1),
)
both("asgd_maximize", T.ASGD, "ASGD", 0.05, dict(t0=0, maximize=True), dict(T0=0, Maximize=True))
both("adafactor", T.Adafactor, "Adafactor", 0.05)
both(
    "adafactor_options",
    T.Adafactor,
    "Adafactor",
    0.5,
    dict(beta2_decay=-0.5, eps=(1e-8, 1e-2), d=1.5, weight_decay=0.1, maximize=True),
    dict(Beta2Decay=-0.5, Eps1=1e-8, Eps2=1e-2, ClipThreshold=1.5, WeightDecay=0.1, Maximize=True),
)
both("adafactor_dtypes", T.Adafactor, "Adafactor", 0.05, dict(eps=(1e-8, 1e-3)), dict(Eps1=1e-8), dtypes=HALF)
run("muon", T.Muon, ("Muon", {}), 0.05, {}, params=MATRICES)
run(
    "muon_plain",
    T.Muon,
    ("Muon", dict(PlainMomentum=True, Momentum=0.8, WeightDecay=0.0, NSSteps=3)),
    0.05,
    dict(nesterov=False, momentum=0.8, weight_decay=0.0, ns_steps=3),
    params=MATRICES,
)
run(
    "muon_match",
    T.Muon,
    ("Muon", dict(Adjust="match_rms_adamw", NSCoefficients=[3.0, -4.0, 2.0], Eps=1e-3)),
    0.05,
    dict(adjust_lr_fn="match_rms_adamw", ns_coefficients=(3.0, -4.0, 2.0), eps=1e-3),
    params=MATRICES,
)
run(
    "muon_original",
    T.Muon,
    ("Muon", {}),
    0.01,
    dict(adjust_lr_fn="original"),
    params=MATRICES,
    dtypes={"late": "bfloat16"},
)

HF = dict(relative_step=False, scale_parameter=False)
GO_HF = dict(RelativeStep=False, ScaleParameter=False)
run("adafactor_hf_relative", AdafactorHF, ("AdafactorHF", {}), None, {})
run(
    "adafactor_hf_warmup",
    AdafactorHF,
    ("AdafactorHF", dict(WarmupInit=True, WeightDecay=0.1)),
    None,
    dict(warmup_init=True, weight_decay=0.1),
)
run("adafactor_hf_trainer", AdafactorHF, ("AdafactorHF", dict(GO_HF, LR=0.05)), 0.05, HF)
run(
    "adafactor_hf_scale",
    AdafactorHF,
    (
        "AdafactorHF",
        dict(LR=0.05, RelativeStep=False, Eps1=1e-8, Eps2=1.0, ClipThreshold=0.5, DecayRate=-0.5, WeightDecay=0.1),
    ),
    0.05,
    dict(relative_step=False, eps=(1e-8, 1.0), clip_threshold=0.5, decay_rate=-0.5, weight_decay=0.1),
)
run(
    "adafactor_hf_momentum",
    AdafactorHF,
    ("AdafactorHF", dict(GO_HF, LR=0.05, Beta1=0.9, WeightDecay=0.1)),
    0.05,
    dict(HF, beta1=0.9, weight_decay=0.1),
)
run(
    "adafactor_hf_dtypes",
    AdafactorHF,
    ("AdafactorHF", dict(Beta1=0.9, WeightDecay=0.1)),
    None,
    dict(beta1=0.9, weight_decay=0.1),
    dtypes=HALF,
)
run("lion", Lion, ("Lion", {}), 0.01, dict(betas=(0.9, 0.99), weight_decay=0.0))
run(
    "lion_options",
    Lion,
    ("Lion", dict(Beta1=0.8, Beta2=0.9, WeightDecay=0.1, Maximize=True)),
    0.01,
    dict(betas=(0.8, 0.9), weight_decay=0.1, maximize=True),
)
run("lion_dtypes", Lion, ("Lion", dict(WeightDecay=0.1)), 0.01, dict(betas=(0.9, 0.99), weight_decay=0.1), dtypes=HALF)
run("lamb", Lamb, ("LAMB", {}), 0.05, dict(betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01))
run("lamb_dtypes", Lamb, ("LAMB", {}), 0.05, dict(betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01), dtypes=HALF)
run(
    "lamb_always",
    Lamb,
    ("LAMB", dict(WeightDecay=0.0, AlwaysAdapt=True, TrustClip=True, NoBiasCorrection=True)),
    0.05,
    dict(betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, always_adapt=True, trust_clip=True, bias_correction=False),
)
run(
    "lamb_plain",
    Lamb,
    ("LAMB", dict(WeightDecay=0.0, Beta1=0.8, Beta2=0.95, Eps=1e-4)),
    0.05,
    dict(betas=(0.8, 0.95), eps=1e-4, weight_decay=0.0),
)
for kind in ("std", "reverse_std", "right", "left", "full"):
    low = dict(rank=2, update_proj_gap=7, scale=0.5, proj_type=kind)
    go = dict(Rank=2, UpdateGap=7, Scale=0.5, Projection=kind)
    run(
        f"galore_adamw_{kind}",
        GaLoreAdamW,
        ("GaLoreAdamW", dict(go, WeightDecay=0.1)),
        0.05,
        dict(low, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1),
        low_rank=MATRICES,
    )
    run(
        f"galore_adafactor_{kind}",
        GaLoreAdafactor,
        ("GaLoreAdafactor", dict(go, **GO_HF, LR=0.05)),
        0.05,
        dict(low, weight_decay=0.0),
        low_rank=MATRICES,
    )
run(
    "galore_adamw_dtypes",
    GaLoreAdamW,
    ("GaLoreAdamW", dict(go, WeightDecay=0.1)),
    0.05,
    dict(low, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1),
    low_rank=MATRICES,
    dtypes=HALF,
)
low = dict(rank=128, update_proj_gap=200, scale=0.25, proj_type="std")
run(
    "galore_adamw_defaults",
    GaLoreAdamW,
    ("GaLoreAdamW", dict(NoBiasCorrection=True)),
    0.05,
    dict(low, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, correct_bias=False),
    low_rank=MATRICES,
)
run(
    "galore_adafactor_momentum",
    GaLoreAdafactor,
    ("GaLoreAdafactor", dict(GO_HF, LR=0.05, Beta1=0.9, WeightDecay=0.1)),
    0.05,
    dict(low, beta1=0.9, weight_decay=0.1),
    low_rank=MATRICES,
)

out = {f"init.{name}": value for name, value in init.items()}
for k, g in enumerate(grads):
    out.update({f"grad.{k}.{name}": value for name, value in g.items()})
path = os.path.join(os.path.dirname(__file__), "inputs.safetensors")
save_file(out, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
print(len(CASES_WRITTEN), "cases")
