"""Writes layers/NAME.safetensors: a module of PyTorch's, what it draws from seed 11, and one training and one
evaluation pass.

The tensors of a case:
  init.NAME                state_dict right after manual_seed(11) and the constructor; init.rng: SHA-256 of the generator's state then
  state.NAME               the state that the passes start from
  NAME                     inputs, and constants of the call or the constructor: x, h0, target, mask, weight, ...
  y, h, c, gy, gh, gc      outputs of the training pass, after manual_seed(13), and their gradients; train.rng: SHA-256 as above
  grad.INPUT, grad.param.NAME, after.NAME    gradients, and the state after the training pass(es)
  eval.y                   output of the evaluation pass
The metadata, JSON under one key since the order of several is random: the module's constructor, the names of parameters
and state in their order, the number of training passes, and how the module is called.
"""

import hashlib, json, os, re
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from torch import nn

torch.backends.mha.set_fastpath_enabled(False)  # one road for training and evaluation
os.makedirs("layers", exist_ok=True)


def spec(type, *args, dtype=None, **options):
    return {"type": type, "args": list(args), "options": options, "dtype": dtype}


# Options whose Go name is not the Python keyword in another case, and what their values mean.
KEYWORDS = {
    "NoBias": ("bias", lambda v: not v),
    "NoAffine": ("affine", lambda v: not v),
    "NoRunningStats": ("track_running_stats", lambda v: not v),
    "RunningStats": ("track_running_stats", bool),
    "ExcludePad": ("count_include_pad", lambda v: not v),
    "Layers": ("num_layers", int),
    "Same": ("padding", lambda v: "same"),
    "Channels": ("num_parameters", int),
    "FeedForward": ("dim_feedforward", int),
    "Scale": ("scale_factor", lambda v: v[0] if len(v) == 1 else tuple(v)),
    "Min": ("min_val", float),
    "Max": ("max_val", float),
    "Lambda": ("lambd", float),
    "NotLog": ("log_input", lambda v: not v),
    "KDim": ("kdim", int),
    "VDim": ("vdim", int),
    "AddBiasKV": ("add_bias_kv", bool),
    "Ratio": ("output_ratio", lambda v: v[0] if len(v) == 1 else tuple(v)),
    "Recompute": ("recompute_scale_factor", bool),
    "KeepDim": ("keepdim", bool),
    "Reduction": ("reduction", lambda v: ["mean", "sum", "none", "batchmean"][v]),
    "PowerIterations": ("n_power_iterations", int),
    "RunningAverage": ("momentum", lambda v: None),
}
BAGS = ["mean", "sum", "max"]


def python(v):
    """an argument of a spec as PyTorch takes it"""
    if isinstance(v, dict) and "type" in v:
        return build(v)
    if isinstance(v, list):
        return v[0] if len(v) == 1 else tuple(v)
    return v


def build(s, constants={}):
    """the module that a spec names"""
    t, args, kw = s["type"], [python(a) for a in s["args"]], {}
    for k, v in s["options"].items():
        name, convert = KEYWORDS.get(k, (re.sub("(?<!^)(?=[A-Z])", "_", k).lower(), python))
        if t in ("LayerNorm", "RMSNorm") and name == "affine":
            name = "elementwise_affine"
        if t == "PReLU" and k == "Init":
            name = "init"
        if t == "EmbeddingBag" and k == "Mode":
            convert = BAGS.__getitem__
        if isinstance(v, str) and v in constants:
            v, convert = constants[v], lambda x: x
        kw[name] = convert(v)
    if s["dtype"]:
        kw["dtype"] = getattr(torch, s["dtype"])
    if t == "WeightNorm":
        return nn.utils.parametrizations.weight_norm(args[0], dim=None if args[1] == -1 else args[1])
    if t == "SpectralNorm":
        return nn.utils.parametrizations.spectral_norm(args[0], **kw)
    if t in (
        "Threshold",
        "Softmax",
        "LogSoftmax",
        "Softmin",
        "PixelShuffle",
        "PixelUnshuffle",
        "ChannelShuffle",
        "Unfold",
        "Fold",
        "Unflatten",
        "LocalResponseNorm",
    ):
        order = {
            "Threshold": ["threshold", "value"],
            "PixelShuffle": ["factor"],
            "PixelUnshuffle": ["factor"],
            "ChannelShuffle": ["groups"],
            "Unfold": ["kernel"],
            "Fold": ["size", "kernel"],
            "Unflatten": ["dim", "sizes"],
            "LocalResponseNorm": ["size"],
        }.get(t, ["dim"])
        args = [kw.pop(n, 0) for n in order]
    if t == "Unflatten":
        args[1] = tuple(args[1])
    if t.startswith("FractionalMaxPool") and "size" in kw:
        kw["output_size"] = kw.pop("size")
    return getattr(nn, t)(*args, **kw)


def digest():
    return torch.tensor(list(hashlib.sha256(bytes(torch.get_rng_state().tolist())).digest()), dtype=torch.uint8)


def flatten(r):
    return [r] if torch.is_tensor(r) else [t for x in r if x is not None for t in flatten(x)]


def case(
    name,
    spec,
    make=None,
    x=(),
    states=(),
    forwards=1,
    perturb=False,
    inputs=None,
    constants=None,
    method=None,
    call=None,
    run=None,
):
    """x: the shape of the input, or a function of a generator; inputs and constants: by name, shapes, functions or
    tensors, the first with gradients. method and call are the Go method and its arguments, names of tensors or JSON;
    run is the same in Python.
    """
    g = torch.Generator().manual_seed(17)
    dtype = torch.float64 if spec["dtype"] == "float64" else torch.float32

    def tensor(v):
        if torch.is_tensor(v):
            return v
        return v(g) if callable(v) else torch.randn(v, generator=g, dtype=dtype)

    fixed = {n: tensor(v) for n, v in (constants or {}).items()}
    torch.manual_seed(11)
    module = make() if make else build(spec, fixed)
    out = {f"init.{k}": v.clone() for k, v in module.state_dict().items()}
    out["init.rng"] = digest()
    if perturb:  # ones and zeros hide mistakes
        with torch.no_grad():
            for v in module.state_dict().values():
                if v.is_floating_point():
                    v.add_(torch.rand(v.shape, generator=g, dtype=v.dtype))
    out |= {f"state.{k}": v.clone() for k, v in module.state_dict().items()}
    live = {n: tensor(v) for n, v in (inputs or {"x": x}).items()}
    for n, shape in zip(("h0", "c0"), states):
        live[n] = torch.randn(shape, generator=g, dtype=dtype)
    for v in live.values():
        v.requires_grad_(v.is_floating_point())
    everything = live | fixed

    def forward():
        if run:
            r = run(module, everything)
        else:
            args = [live[n] for n in live if n not in ("h0", "c0")] + [
                fixed[n] for n in fixed if call is None or n in call
            ]
            if len(states) == 1:
                args.append(live["h0"])
            if len(states) == 2:
                args.append((live["h0"], live["c0"]))
            r = module(*args)
        return dict(zip(("y", "h", "c"), flatten(r)))

    torch.manual_seed(13)
    for _ in range(forwards):
        results = forward()
    out["train.rng"] = digest()
    results = {n: t for n, t in results.items()}
    gradients = {
        n: torch.randn(t.shape, generator=g, dtype=t.dtype) for n, t in results.items() if t.is_floating_point()
    }
    roots = [n for n, t in results.items() if t.requires_grad]
    if roots:
        torch.autograd.backward([results[n] for n in roots], [gradients[n] for n in roots])
    out |= (
        {n: t.detach() for n, t in everything.items()}
        | {n: t.detach() for n, t in results.items()}
        | {"g" + n: t for n, t in gradients.items()}
    )
    out |= {f"grad.{n}": t.grad for n, t in live.items() if t.grad is not None}
    out |= {f"grad.param.{n}": p.grad for n, p in module.named_parameters() if p.grad is not None}
    out |= {f"after.{k}": v.clone() for k, v in module.state_dict().items()}
    module.eval()
    with torch.no_grad():
        out["eval.y"] = forward()["y"]
    meta = {
        "torch": torch.__version__,
        "module": spec,
        "params": [n for n, _ in module.named_parameters()],
        "state": list(module.state_dict()),
        "forwards": forwards,
        "inputs": list(live),
        "method": method,
        "call": call if call is not None else list(live) + list(fixed),
    }
    save_file(
        {k: v.clone().contiguous() for k, v in out.items()},
        f"layers/{name}.safetensors",
        metadata={"case": json.dumps(meta)},
    )
    os.chmod(f"layers/{name}.safetensors", 0o644)
