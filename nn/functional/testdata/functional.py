"""Writes functional.safetensors: inputs of each case, its output, and the gradient of the first input for an output
gradient of ones.
"""

import json, os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import warnings

import torch
import torch.nn.functional as F
from goldenfile import save_file

warnings.simplefilter("ignore")  # broadcasting losses
g = torch.Generator().manual_seed(5)
randn = lambda *s: torch.randn(s, generator=g)
rand = lambda *s: torch.rand(s, generator=g)
out = {}


def case(name, f, *inputs):
    x = inputs[0].clone().requires_grad_(inputs[0].is_floating_point())
    torch.manual_seed(3)
    y = f(x, *inputs[1:])
    for i, t in enumerate(inputs):
        out[f"{name}.{i}"] = t.clone()
    out[f"{name}.y"] = y.detach().clone()
    if y.requires_grad:
        y.backward(torch.ones_like(y))
        out[f"{name}.grad"] = x.grad.clone()


labels = torch.tensor([1, 4, 0, -100, 2, 2])
case("cross_entropy", F.cross_entropy, randn(6, 5), labels)
case("cross_entropy_weighted", lambda x, y, w: F.cross_entropy(x, y, w), randn(6, 5), labels, rand(5))
case(
    "cross_entropy_options",
    lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=2, reduction="sum", label_smoothing=0.1),
    randn(6, 5),
    torch.tensor([1, 4, 0, 3, 2, 2]),
    rand(5),
)
case(
    "cross_entropy_ignore_zero",
    lambda x, y: F.cross_entropy(x, y, ignore_index=0, reduction="none"),
    randn(3, 4),
    torch.tensor([0, 1, 2]),
)
case("cross_entropy_images", F.cross_entropy, randn(2, 4, 3, 3), torch.randint(0, 4, (2, 3, 3), generator=g))
case("cross_entropy_probabilities", F.cross_entropy, randn(3, 4), rand(3, 4).softmax(1))
case("cross_entropy_one", F.cross_entropy, randn(4), torch.tensor(2))
case("nll_loss", F.nll_loss, randn(6, 5).log_softmax(1), labels)
case(
    "nll_loss_options",
    lambda x, y, w: F.nll_loss(x, y, w, ignore_index=1, reduction="none"),
    randn(6, 5).log_softmax(1),
    torch.tensor([1, 4, 0, 3, 2, 2]),
    rand(5),
)
case("nll_loss_images", F.nll_loss, randn(2, 4, 3, 3).log_softmax(1), torch.randint(0, 4, (2, 3, 3), generator=g))
case("nll_loss_one", F.nll_loss, randn(4).log_softmax(0), torch.tensor(2))
for r in ("mean", "sum", "none"):
    case(f"mse_loss_{r}", lambda x, y: F.mse_loss(x, y, reduction=r), randn(4, 3), randn(4, 3))
    case(f"l1_loss_{r}", lambda x, y: F.l1_loss(x, y, reduction=r), randn(4, 3), randn(4, 3))
case("mse_loss_broadcast", F.mse_loss, randn(4, 1), randn(4, 3))
case("l1_loss_broadcast", F.l1_loss, randn(4, 1), randn(3))
case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), randn(4, 3), randn(4, 3))
case("smooth_l1_loss_zero", lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), randn(4, 3), randn(4, 3))
case("huber_loss", lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.7), randn(4, 3), randn(4, 3))
case("kl_div", lambda x, y: F.kl_div(x, y, reduction="mean"), randn(4, 3).log_softmax(1), rand(4, 3).softmax(1))
case(
    "kl_div_log",
    lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
    randn(4, 3).log_softmax(1),
    rand(4, 3).log_softmax(1),
)
case("bce_with_logits", F.binary_cross_entropy_with_logits, randn(4, 3), rand(4, 3))
case(
    "bce_with_logits_options",
    lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, reduction="sum", pos_weight=p),
    randn(4, 3),
    rand(4, 3),
    rand(3),
    rand(3),
)
il, tl = torch.tensor([8, 8, 7]), torch.tensor([3, 5, 2])
case(
    "ctc_loss",
    lambda x, t, i, l: F.ctc_loss(x, t, i, l),
    randn(8, 3, 6).log_softmax(2),
    torch.randint(1, 6, (3, 5), generator=g),
    il,
    tl,
)
case(
    "ctc_loss_flat",
    lambda x, t, i, l: F.ctc_loss(x, t, i, l, reduction="sum"),
    randn(8, 3, 6).log_softmax(2),
    torch.randint(1, 6, (10,), generator=g),
    il,
    tl,
)
case(
    "ctc_loss_options",
    lambda x, t, i, l: F.ctc_loss(x, t, i, l, blank=5, reduction="none", zero_infinity=True),
    randn(8, 3, 6).log_softmax(2),
    torch.randint(0, 5, (3, 5), generator=g),
    torch.tensor([8, 2, 7]),
    tl,
)
x = randn(3, 4)
for n in ("relu", "gelu", "silu", "sigmoid", "tanh", "softplus", "leaky_relu"):
    case(n, getattr(F, n), x)
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x)
case("softmax", lambda x: F.softmax(x, 0), x)
case("log_softmax", lambda x: F.log_softmax(x, -1), x)
case("dropout", lambda x: F.dropout(x, 0.4), x)
case("dropout_evaluating", lambda x: F.dropout(x, 0.4, False), x)
case("normalize", F.normalize, x)
case("cosine_similarity", F.cosine_similarity, x, randn(3, 4))
case("linear", F.linear, x, randn(5, 4), randn(5))
case("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), x, randn(4), randn(4))
case("embedding", F.embedding, torch.tensor([[1, 0], [2, 2]]), randn(3, 4))
case("gumbel_softmax", F.gumbel_softmax, x)
case("gumbel_softmax_hard", lambda x: F.gumbel_softmax(x, tau=0.5, hard=True, dim=0), x)
case(
    "kl_div_batchmean",
    lambda x, y: F.kl_div(x, y, reduction="batchmean"),
    randn(4, 3).log_softmax(1),
    rand(4, 3).softmax(1),
)
case("pdist", F.pdist, randn(5, 3))
case("pdist_one", lambda x: F.pdist(x, 1.0), randn(5, 3))
case("cdist", torch.cdist, randn(5, 3), randn(4, 3))
case("cdist_three", lambda x, y: torch.cdist(x, y, 3.0), randn(2, 5, 3), randn(2, 4, 3))
image, volume = randn(2, 3, 5, 6), randn(2, 3, 4, 5, 6)
grid, grid3 = rand(2, 4, 3, 2) * 2.4 - 1.2, rand(2, 3, 4, 2, 3) * 2.4 - 1.2
case("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), image, grid)
case("grid_sample_nearest", lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=True), image, grid)
case("grid_sample_bicubic", lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=False), image, grid)
case("grid_sample_volume", lambda x, g: F.grid_sample(x, g, align_corners=True), volume, grid3)
case("affine_grid", lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), randn(2, 2, 3))
case("affine_grid_volume", lambda t: F.affine_grid(t, [2, 3, 4, 5, 3], align_corners=True), randn(2, 3, 4))
case("interpolate_antialias", lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), image)
case(
    "interpolate_antialias_bicubic", lambda x: F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True), image
)
q, k, v = randn(2, 4, 5, 8), randn(2, 4, 6, 8), randn(2, 4, 6, 8)
case("attention", F.scaled_dot_product_attention, q, k, v)
case(
    "attention_mask",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
    q,
    k,
    v,
    torch.ones(5, 6).tril().bool(),
)
case("attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
case("attention_dropout", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3), q, k, v)
case(
    "attention_gqa",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    q,
    k[:, :2].contiguous(),
    v[:, :2].contiguous(),
)
case("max_pool2d", lambda x: F.max_pool2d(x, (2, 3), stride=1, padding=(0, 1)), image)
case("instance_norm", lambda x, m, s: F.instance_norm(x, m, s, use_input_stats=False), image, randn(3), rand(3))
save_file({k: v.contiguous() for k, v in out.items()}, "functional.safetensors", metadata={"torch": torch.__version__})
os.chmod("functional.safetensors", 0o644)
