"""Writes packages/CASE.safetensors: 50 updates of the optimizers that other packages publish, by those packages
themselves.

schedulefree 1.4.1, torch-optimi 0.3.3, grokadamw 0.1.2, bitsandbytes 0.50.2, galore-torch 1.0, apollo-torch 1.0.3,
lomo-optim 0.1.1, on the CPU. Parameters and gradients are uniform numbers of a generator, so that the test makes the
same without a file. Parameter "late" has its first gradient in update 4, "rare" has none in odd updates, "frozen"
never; gradients repeat after 5 updates, and some are exactly zero. A case: param/NAME, eval/NAME (schedule-free, in
evaluation mode) and state/NAME.KIND after the updates; of tensors with more than 512 elements only every 41st, beside
sha256/KEY of all of them. The metadata say which Go settings repeat it. Where a package does not run on a CPU, or not
with the others of today, what is done about it stands here, beside its case.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import hashlib
import json
import logging
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
import torch
from safetensors.torch import save_file

import apollo_torch
import bitsandbytes as bnb
import bitsandbytes.optim.optimizer as bnb_optimizer
import galore_torch
import grokadamw
import lomo_optim
import optimi
import schedulefree

torch.set_num_threads(1)
torch.cuda.synchronize = lambda *a: None  # galore_torch waits for a GPU after each update
torch.Tensor.cuda = lambda self, *a: self  # lomo_optim puts the states of AdaLomo onto a GPU

here = os.path.dirname(os.path.abspath(__file__))
UPDATES = 50
SHAPES = {
    "weight": (23, 11),
    "bias": (11,),
    "scale": (),
    "late": (5, 3),
    "rare": (33,),
    "large": (96, 64),
    "odd": (61, 70),
    "frozen": (4,),
}
MATRICES = ["late", "large", "odd"]
HALF = {"bias": "bfloat16", "odd": "bfloat16", "late": "bfloat16"}
generator = torch.Generator().manual_seed(2024)


def uniform(shape):
    return torch.rand(shape, generator=generator) * 2 - 1


init = {name: uniform(shape) for name, shape in SHAPES.items()}
grads = [{name: uniform(shape) for name, shape in SHAPES.items() if name != "frozen"} for _ in range(5)]
for g in grads:  # with singular values far enough apart that their vectors do not depend on the last bits
    for name in MATRICES:
        g[name][:, :4] *= torch.tensor([16.0, 12.0, 9.0, 7.0])[: g[name].shape[1]]
for g in grads[1:3]:
    g["bias"][:3] = 0
    g["large"][:8] = 0


def gradient(update, name):
    if name == "frozen" or (name == "late" and update < 4) or (name == "rare" and update % 2 == 1):
        return None
    return grads[update % 5][name]


def write(case, go, options, peak, tensors, **metadata):
    out, meta = (
        {},
        dict(
            mkl_cbwr=os.environ["MKL_CBWR"], optimizer=go, options=json.dumps(options, sort_keys=True), peak=repr(peak)
        ),
    )
    meta.update({k: json.dumps(v) for k, v in metadata.items()})
    for key in sorted(tensors):
        t = tensors[key].detach().clone().contiguous()
        if t.numel() > 512:
            meta["sha256/" + key] = hashlib.sha256(t.view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
            t = t.view(-1)[::41].clone()
        out[key] = t
    path = os.path.join(here, "packages", case + ".safetensors")
    save_file(out, path, metadata=meta)
    with open(path, "rb") as f:  # the order of the metadata is another one each time
        data = f.read()
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header + data[8 + length :])
    os.chmod(path, 0o644)
    print(case)


def flat(state):
    """The entries of a state that are numbers or tensors; numbers as float32, which the states of the Go optimizers
    are. RMS of Adafactor is computed at each update from the weights alone.
    """
    for kind, value in state.items():
        if kind == "RMS":
            continue
        if isinstance(value, torch.Tensor):
            yield kind, value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield kind, torch.tensor(float(value))
        elif hasattr(value, "ortho_matrix"):
            m = value.ortho_matrix
            for k, t in (
                {"projector_left": m[0], "projector_right": m[1]}.items() if isinstance(m, list) else [("projector", m)]
            ):
                yield k, t
            if hasattr(value, "seed"):
                yield "seed", torch.tensor(value.seed)


def start(names, dtypes):
    return {
        n: torch.nn.Parameter(init[n].to(getattr(torch, dtypes.get(n, "float32"))).clone(), requires_grad=n != "frozen")
        for n in names
    }


def run(case, make, go, options, peak, names=SHAPES, dtypes={}, low_rank=[], entries={}, groups=None, state_of=None):
    """50 updates of make(groups) by optimizer.step(); entries are those of param_groups that belong to the state."""
    params = start(names, dtypes)
    given = [{"params": [p for n, p in params.items() if n not in low_rank]}]
    if low_rank:
        given.append({"params": [params[n] for n in low_rank], **groups})
    opt = make(given)
    if hasattr(opt, "train"):
        opt.train()
    for k in range(UPDATES):
        for n, p in params.items():
            g = gradient(k, n)
            p.grad = None if g is None else g.to(p.dtype).clone()
        for group in opt.param_groups:
            group["lr"] = peak * ((UPDATES - k) / UPDATES)
        opt.step()
    tensors = {"param/" + n: p.detach().clone() for n, p in params.items()}
    state = state_of(opt, params) if state_of else {n: opt.state.get(p, {}) for n, p in params.items()}
    for n, s in state.items():
        if n == "frozen":
            continue
        tensors.update({f"state/{n}.{kind}": t for kind, t in flat(s)})
    for i, group in enumerate(opt.param_groups):
        for entry in entries:
            tensors[f"state/param_groups.{i}.{entry}"] = torch.tensor(float(group[entry]), dtype=torch.float64)
    if hasattr(opt, "eval"):
        opt.eval()
        tensors.update({"eval/" + n: p.detach().clone() for n, p in params.items()})
    write(case, go, options, peak, tensors, params=list(names), dtypes=dtypes, low_rank=low_rank)


def backward(case, make, go, options, peak, names=SHAPES, dtypes={}, low_rank=[], state_of=None):
    """50 updates during the backward pass: update(loss, lr) of make(params) does one."""
    params = start(names, dtypes)
    opt, update = make(params)
    for k in range(UPDATES):
        loss = 0
        for n, p in params.items():
            g = gradient(k, n)
            if g is not None:
                loss = loss + (p * g.to(p.dtype)).sum().float()
        update(loss, peak * ((UPDATES - k) / UPDATES))
    tensors = {"param/" + n: p.detach().clone() for n, p in params.items()}
    for n, s in state_of(opt, params).items():
        tensors.update({f"state/{n}.{kind}": t for kind, t in flat(s)})
    write(case, go, options, peak, tensors, params=list(names), dtypes=dtypes, low_rank=low_rank)


# --- schedulefree
FREE = ["train_mode", "k", "weight_sum", "lr_max", "scheduled_lr"]
S = schedulefree
run("schedulefree_adamw", lambda p: S.AdamWScheduleFree(p), "AdamWScheduleFree", {}, 0.05, entries=FREE)
run(
    "schedulefree_adamw_options",
    lambda p: S.AdamWScheduleFree(
        p, betas=(0.95, 0.99), eps=1e-6, weight_decay=0.1, warmup_steps=7, r=0.5, weight_lr_power=1.0
    ),
    "AdamWScheduleFree",
    dict(Beta1=0.95, Beta2=0.99, Eps=1e-6, WeightDecay=0.1, WarmupSteps=7, R=0.5, WeightLRPower=1.0),
    0.05,
    entries=FREE,
)
run(
    "schedulefree_adamw_dtypes",
    lambda p: S.AdamWScheduleFree(p, weight_decay=0.1),
    "AdamWScheduleFree",
    dict(WeightDecay=0.1),
    0.05,
    dtypes=HALF,
    entries=FREE,
)
run("schedulefree_radam", lambda p: S.RAdamScheduleFree(p), "RAdamScheduleFree", {}, 0.05, entries=FREE)
run(
    "schedulefree_radam_options",
    lambda p: S.RAdamScheduleFree(
        p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, r=1.0, weight_lr_power=0.5, silent_sgd_phase=False
    ),
    "RAdamScheduleFree",
    dict(Beta1=0.8, Beta2=0.95, Eps=1e-6, WeightDecay=0.1, R=1.0, WeightLRPower=0.5, SGDPhase=True),
    0.05,
    entries=FREE,
)
run("schedulefree_sgd", lambda p: S.SGDScheduleFree(p), "SGDScheduleFree", {}, 0.5, entries=FREE)
run(
    "schedulefree_sgd_options",
    lambda p: S.SGDScheduleFree(p, momentum=0.8, weight_decay=0.1, warmup_steps=5, r=0.5),
    "SGDScheduleFree",
    dict(Momentum=0.8, WeightDecay=0.1, WarmupSteps=5, R=0.5),
    0.5,
    entries=FREE,
)

# --- torch-optimi, which takes its Triton kernels unless it is told not to, and then fails on a CPU
run("stableadamw", lambda p: optimi.StableAdamW(p, triton=False, lr=0.05), "StableAdamW", {}, 0.05, entries=["step"])
run(
    "stableadamw_options",
    lambda p: optimi.StableAdamW(
        p, triton=False, lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=1e-3, decouple_lr=True, max_lr=0.1
    ),
    "StableAdamW",
    dict(Beta1=0.8, Beta2=0.95, Eps=1e-4, WeightDecay=1e-3, DecoupleLR=True, MaxLR=0.1),
    0.05,
    entries=["step"],
)
run(
    "stableadamw_dtypes",
    lambda p: optimi.StableAdamW(p, triton=False, lr=0.05),
    "StableAdamW",
    {},
    0.05,
    dtypes=HALF,
    entries=["step"],
)
run(
    "stableadamw_plain_sums",
    lambda p: optimi.StableAdamW(p, triton=False, lr=0.05, kahan_sum=False),
    "StableAdamW",
    dict(KahanSum=False),
    0.05,
    dtypes=HALF,
    entries=["step"],
)

# --- grokadamw, which keeps its states in the group
GROK = lambda opt, params: {n: opt.param_groups[0]["state"].get(p, {}) for n, p in params.items()}
run("grokadamw", lambda p: grokadamw.GrokAdamW(p), "GrokAdamW", {}, 0.05, state_of=GROK)
run(
    "grokadamw_options",
    lambda p: grokadamw.GrokAdamW(
        p,
        betas=(0.8, 0.95),
        eps=1e-6,
        weight_decay=0.1,
        alpha_init=0.9,
        lamb=1.5,
        gamma=0.2,
        gradient_clipping=0.3,
        grokking_signal_fns=[lambda: 0.5],
        grokking_signal_decay_rate=0.2,
    ),
    "GrokAdamW",
    dict(
        Beta1=0.8,
        Beta2=0.95,
        Eps=1e-6,
        WeightDecay=0.1,
        AlphaInit=0.9,
        Lamb=1.5,
        Gamma=0.2,
        GradientClipping=0.3,
        GrokkingSignalDecayRate=0.2,
    ),
    0.05,
    state_of=GROK,
)
run("grokadamw_dtypes", lambda p: grokadamw.GrokAdamW(p), "GrokAdamW", {}, 0.05, dtypes=HALF, state_of=GROK)

# --- bitsandbytes
B = bnb.optim
for dtypes, end in (({}, ""), (HALF, "_dtypes")):
    run("bnb_adamw_8bit" + end, lambda p: B.AdamW(p, optim_bits=8), "AdamW8bit", {}, 0.05, dtypes=dtypes)
    run("bnb_adamw_32bit" + end, lambda p: B.AdamW(p, optim_bits=32), "AdamW32bit", {}, 0.05, dtypes=dtypes)
    run(
        "bnb_lion_8bit" + end,
        lambda p: B.Lion(p, weight_decay=0.1, optim_bits=8),
        "Lion8bit",
        dict(WeightDecay=0.1),
        0.01,
        dtypes=dtypes,
    )
    run(
        "bnb_lion_32bit" + end,
        lambda p: B.Lion(p, weight_decay=0.1, optim_bits=32),
        "Lion32bit",
        dict(WeightDecay=0.1),
        0.01,
        dtypes=dtypes,
    )
    run(
        "bnb_rmsprop_8bit" + end,
        lambda p: B.RMSprop(p, weight_decay=0.1, optim_bits=8),
        "RMSprop8bit",
        dict(WeightDecay=0.1),
        0.05,
        dtypes=dtypes,
    )
    run(
        "bnb_rmsprop_32bit" + end,
        lambda p: B.RMSprop(p, weight_decay=0.1, optim_bits=32),
        "RMSprop32bit",
        dict(WeightDecay=0.1),
        0.05,
        dtypes=dtypes,
    )
    run("bnb_ademamix_8bit" + end, lambda p: B.AdEMAMix(p, optim_bits=8), "AdEMAMix8bit", {}, 0.02, dtypes=dtypes)
    run("bnb_ademamix_32bit" + end, lambda p: B.AdEMAMix(p, optim_bits=32), "AdEMAMix", {}, 0.02, dtypes=dtypes)
run(
    "bnb_adamw_8bit_options",
    lambda p: B.AdamW(p, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.0, optim_bits=8, min_8bit_size=30),
    "AdamW8bit",
    dict(Beta1=0.8, Beta2=0.95, Eps=1e-4, WeightDecay=0.0, MinSize=30),
    0.05,
)
run("bnb_adamw_paged", lambda p: B.AdamW(p, optim_bits=8, is_paged=True), "AdamW8bit", {}, 0.05)
run(
    "bnb_ademamix_8bit_schedules",
    lambda p: B.AdEMAMix(
        p,
        betas=(0.8, 0.99, 0.999),
        alpha=3.0,
        t_alpha=20,
        t_beta3=30,
        eps=1e-6,
        weight_decay=0.1,
        optim_bits=8,
        min_8bit_size=200,
    ),
    "AdEMAMix8bit",
    dict(Beta1=0.8, Beta2=0.99, Beta3=0.999, Alpha=3.0, TAlpha=20, TBeta3=30, Eps=1e-6, WeightDecay=0.1, MinSize=200),
    0.02,
)
run(
    "bnb_ademamix_32bit_schedules",
    lambda p: B.AdEMAMix(p, betas=(0.8, 0.99, 0.999), alpha=3.0, t_alpha=20, t_beta3=30, optim_bits=32),
    "AdEMAMix",
    dict(Beta1=0.8, Beta2=0.99, Beta3=0.999, Alpha=3.0, TAlpha=20, TBeta3=30),
    0.02,
)

# --- galore-torch; its 8-bit class gives the base class of bitsandbytes arguments by position that this one has no
# longer: percentile_clipping=100 would be max_unorm, and block_wise=True skip_zeros. They are left out, which is what
# they mean.
two = bnb_optimizer.Optimizer2State.__init__


def named(
    self, name, params, lr, betas, eps, weight_decay, bits, args=None, min_8bit_size=4096, *old, is_paged=False, **more
):
    two(self, name, params, lr, betas, eps, weight_decay, bits, args, min_8bit_size, is_paged=is_paged, **more)


G = galore_torch
low = dict(rank=4, update_proj_gap=20, scale=0.5)
go = dict(Rank=4, UpdateGap=20, Scale=0.5)
HF = dict(scale_parameter=False, relative_step=False)
GO_HF = dict(ScaleParameter=False, RelativeStep=False)


def layerwise(make):
    """As transformers' Trainer does it: an optimizer for each parameter, called by a hook."""

    def made(params):
        optimizers = {
            p: make([{"params": [p], **(dict(low, proj_type="std") if n in MATRICES else {})}])
            for n, p in params.items()
        }

        def hook(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in params.values():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(hook)

        def update(loss, lr):
            for o in optimizers.values():
                o.param_groups[0]["lr"] = lr
            loss.backward()

        return optimizers, update

    return made


EACH = lambda optimizers, params: {n: optimizers[p].state.get(p, {}) for n, p in params.items() if n != "frozen"}
for kind in ("std", "reverse_std", "right", "left", "full"):
    # projected from both sides by its own singular vectors a gradient is zero but for the diagonal: a small eps would
    # make steps of rounding errors
    eps = 0.1 if kind == "full" else 1e-6
    run(
        f"galore_adamw_{kind}",
        lambda p: G.GaLoreAdamW(p, weight_decay=0.1, eps=eps),
        "GaLoreAdamW",
        dict(go, WeightDecay=0.1, Eps=eps, Projection=kind),
        0.05,
        low_rank=MATRICES,
        groups=dict(low, proj_type=kind),
    )
run(
    "galore_adafactor",
    lambda p: G.GaLoreAdafactor(p, lr=0.05, **HF),
    "GaLoreAdafactor",
    dict(go, LR=0.05, **GO_HF),
    0.05,
    low_rank=MATRICES,
    groups=dict(low, proj_type="std"),
)
backward(
    "galore_adamw_layerwise",
    layerwise(lambda p: G.GaLoreAdamW(p)),
    "LayerWise GaLoreAdamW",
    go,
    0.05,
    low_rank=MATRICES,
    state_of=EACH,
)
backward(
    "galore_adafactor_layerwise",
    layerwise(lambda p: G.GaLoreAdafactor(p, lr=0.05, **HF)),
    "LayerWise GaLoreAdafactor",
    dict(go, LR=0.05, **GO_HF),
    0.05,
    low_rank=MATRICES,
    state_of=EACH,
)
bnb_optimizer.Optimizer2State.__init__ = named
for kind in ("std", "right", "full"):
    eps = 0.1 if kind == "full" else 1e-8
    run(
        f"galore_adamw_8bit_{kind}",
        lambda p: G.GaLoreAdamW8bit(p, min_8bit_size=256, eps=eps),
        "GaLoreAdamW8bit",
        dict(go, MinSize=256, Eps=eps, Projection=kind),
        0.05,
        low_rank=MATRICES,
        groups=dict(low, proj_type=kind),
    )
run(
    "galore_adamw_8bit_dtypes",
    lambda p: G.GaLoreAdamW8bit(p, weight_decay=0.0),
    "GaLoreAdamW8bit",
    dict(go, WeightDecay=0.0),
    0.05,
    low_rank=MATRICES,
    groups=dict(low, proj_type="std"),
    dtypes=HALF,
)
backward(
    "galore_adamw_8bit_layerwise",
    layerwise(lambda p: G.GaLoreAdamW8bit(p, min_8bit_size=256)),
    "LayerWise GaLoreAdamW8bit",
    dict(go, MinSize=256),
    0.05,
    low_rank=MATRICES,
    state_of=EACH,
)
bnb_optimizer.Optimizer2State.__init__ = two

# --- apollo-torch
A = apollo_torch.APOLLOAdamW
group = dict(low, proj="random", scale_type="channel", proj_type="std")
APOLLO = lambda opt, params: {
    n: {k: v for k, v in opt.state.get(p, {}).items() if k != "seed"} for n, p in params.items()
}
for kind, names in {
    "std": MATRICES,
    "right": ["late", "large"],
    "left": ["odd"],
}.items():  # it fails where the longer side is projected
    run(
        f"apollo_{kind}",
        lambda p: A(p, weight_decay=0.1),
        "APOLLOAdamW",
        dict(go, WeightDecay=0.1, Projection=kind),
        0.05,
        low_rank=names,
        groups=dict(group, proj_type=kind),
        state_of=APOLLO,
    )
run(
    "apollo_mini",
    lambda p: A(p),
    "APOLLOAdamW",
    dict(Rank=1, UpdateGap=200, Scale=128.0, ScaleType="tensor"),
    0.01,
    low_rank=MATRICES,
    groups=dict(group, rank=1, update_proj_gap=200, scale=128.0, scale_type="tensor"),
    state_of=APOLLO,
)
run(
    "apollo_svd",
    lambda p: A(p, correct_bias=False),
    "APOLLOAdamW",
    dict(go, SVD=True, NoBiasCorrection=True),
    0.05,
    low_rank=MATRICES,
    groups=dict(group, proj="svd"),
    state_of=APOLLO,
)
run(
    "apollo_options",
    lambda p: A(p, scale_front=True, disable_nl=True),
    "APOLLOAdamW",
    dict(go, ScaleFront=True, NoNormGrowthLimiter=True, LowRankBeta1=0.8, LowRankBeta2=0.95, LowRankEps=1e-8),
    0.05,
    low_rank=MATRICES,
    groups=dict(group, betas=(0.8, 0.95), eps=1e-8),
    state_of=APOLLO,
)
run(
    "apollo_dtypes",
    lambda p: A(p),
    "APOLLOAdamW",
    go,
    0.05,
    low_rank=MATRICES,
    groups=group,
    dtypes=HALF,
    state_of=APOLLO,
)

# --- lomo-optim


class Model(torch.nn.Module):
    def __init__(self, params):
        super().__init__()
        for n, p in params.items():
            self.register_parameter(n, p)


def lomo(kind, **options):
    def made(params):
        opt = kind(Model(params), **options)
        return opt, lambda loss, lr: opt.fused_backward(loss, lr)

    return made


NONE = lambda opt, params: {}
ADALOMO = lambda opt, params: {
    n: {k: getattr(opt, k)[n] for k in ("exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col") if n in getattr(opt, k)}
    for n in params
    if n != "frozen"
}
WITHOUT = [n for n in SHAPES if n != "scale"]  # AdaLomo fails for parameters without dimensions
backward("lomo", lomo(lomo_optim.Lomo), "LOMO", {}, 0.05, state_of=NONE)
backward(
    "lomo_options",
    lomo(lomo_optim.Lomo, weight_decay=0.1, clip_grad_value=0.5),
    "LOMO",
    dict(WeightDecay=0.1, ClipGradValue=0.5),
    0.05,
    dtypes=HALF,
    state_of=NONE,
)
backward("adalomo", lomo(lomo_optim.AdaLomo), "AdaLOMO", {}, 0.05, names=WITHOUT, state_of=ADALOMO)
backward(
    "adalomo_options",
    lomo(
        lomo_optim.AdaLomo, eps=(1e-8, 1e-2), clip_threshold=0.5, decay_rate=-0.5, weight_decay=0.1, clip_grad_value=0.5
    ),
    "AdaLOMO",
    dict(Eps1=1e-8, Eps2=1e-2, ClipThreshold=0.5, DecayRate=-0.5, WeightDecay=0.1, ClipGradValue=0.5),
    0.05,
    names=WITHOUT,
    dtypes=HALF,
    state_of=ADALOMO,
)
