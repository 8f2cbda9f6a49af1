"""Writes cases of attention and transformers to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import torch
from torch import nn

M = "MultiheadAttention"
mask = torch.triu(torch.ones(5, 6), 2).bool()
padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
qkv = {"q": (5, 2, 8), "k": (6, 2, 8), "v": (6, 2, 8)}
swap = lambda d: {n: (s[1], s[0], s[2]) for n, s in d.items()}
plain = lambda m, i: m(i["q"], i["k"], i["v"], need_weights=False)
three = ["q", "k", "v"]
case("attention", spec(M, 8, 2), inputs=qkv, call=three + [{}], run=plain)
case(
    "attention_self",
    spec(M, 8, 2, Dropout=0.3),
    x=(5, 2, 8),
    call=["x", "x", "x", {}],
    run=lambda m, i: m(i["x"], i["x"], i["x"], need_weights=False),
    forwards=2,
)
case(
    "attention_memory",
    spec(M, 8, 4, BatchFirst=True),
    inputs={"x": (2, 5, 8), "k": (2, 6, 8)},
    call=["x", "k", "k", {}],
    run=lambda m, i: m(i["x"], i["k"], i["k"], need_weights=False),
)
case(
    "attention_unbatched", spec(M, 8, 2), inputs={n: (s[0], s[2]) for n, s in qkv.items()}, call=three + [{}], run=plain
)
case("attention_nobias", spec(M, 8, 2, NoBias=True, BatchFirst=True), inputs=swap(qkv), call=three + [{}], run=plain)
case(
    "attention_dims",
    spec(M, 8, 2, KDim=5, VDim=7),
    inputs={"q": (5, 2, 8), "k": (6, 2, 5), "v": (6, 2, 7)},
    call=three + [{}],
    run=plain,
)
case(
    "attention_bias_kv",
    spec(M, 8, 2, AddBiasKV=True, AddZeroAttn=True),
    inputs=qkv,
    constants={"mask": mask, "padding": padding},
    call=three + [{"Mask": "mask", "KeyPadding": "padding"}],
    run=lambda m, i: m(i["q"], i["k"], i["v"], attn_mask=i["mask"], key_padding_mask=i["padding"], need_weights=False),
)
case(
    "attention_mask",
    spec(M, 8, 2),
    inputs=qkv,
    constants={"mask": mask},
    call=three + [{"Mask": "mask"}],
    run=lambda m, i: m(i["q"], i["k"], i["v"], attn_mask=i["mask"], need_weights=False),
)
case(
    "attention_mask_float",
    spec(M, 8, 2),
    inputs=qkv,
    constants={"mask": (4, 5, 6)},
    call=three + [{"Mask": "mask"}],
    run=lambda m, i: m(i["q"], i["k"], i["v"], attn_mask=i["mask"], need_weights=False),
)
case(
    "attention_padding",
    spec(M, 8, 2),
    inputs=qkv,
    constants={"padding": padding},
    call=three + [{"KeyPadding": "padding"}],
    run=lambda m, i: m(i["q"], i["k"], i["v"], key_padding_mask=i["padding"], need_weights=False),
)
case(
    "attention_weights",
    spec(M, 8, 2, Dropout=0.2),
    inputs=qkv,
    constants={"mask": mask, "padding": padding},
    method="ForwardWeights",
    call=three + [{"Mask": "mask", "KeyPadding": "padding"}],
    run=lambda m, i: m(
        i["q"], i["k"], i["v"], attn_mask=i["mask"], key_padding_mask=i["padding"], average_attn_weights=False
    ),
)
case(
    "attention_weights_unbatched",
    spec(M, 8, 2),
    inputs={n: (s[0], s[2]) for n, s in qkv.items()},
    method="ForwardWeights",
    call=three + [{}],
    run=lambda m, i: m(i["q"], i["k"], i["v"], average_attn_weights=False),
)
square = nn.Transformer.generate_square_subsequent_mask
case(
    "attention_causal",
    spec(M, 8, 2),
    x=(5, 2, 8),
    call=["x", "x", "x", {"Causal": True}],
    run=lambda m, i: m(i["x"], i["x"], i["x"], attn_mask=square(5), is_causal=True, need_weights=False),
)
case(
    "attention_causal_padding",
    spec(M, 8, 2),
    x=(6, 2, 8),
    constants={"padding": padding},
    call=["x", "x", "x", {"Causal": True, "KeyPadding": "padding"}],
    run=lambda m, i: m(
        i["x"],
        i["x"],
        i["x"],
        attn_mask=square(6),
        key_padding_mask=torch.zeros(2, 6).masked_fill(i["padding"], float("-inf")),
        is_causal=True,
        need_weights=False,
    ),
)

E, D = "TransformerEncoderLayer", "TransformerDecoderLayer"
case("encoderlayer", spec(E, 8, 2, FeedForward=16), x=(5, 2, 8), call=["x", {}], forwards=2)
case(
    "encoderlayer_normfirst",
    spec(E, 8, 2, FeedForward=16, NormFirst=True, BatchFirst=True, NoBias=True, Dropout=0.0, LayerNormEps=1e-3),
    x=(2, 5, 8),
    call=["x", {}],
)
gelu = dict(FeedForward=16, Activation=spec("GELU"))
case(
    "encoderlayer_gelu",
    spec(E, 8, 2, **gelu),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"),
    x=(6, 2, 8),
    constants={"padding": padding},
    call=["x", {"KeyPadding": "padding"}],
    run=lambda m, i: m(i["x"], src_key_padding_mask=i["padding"]),
)
case("encoderlayer_default", spec(E, 2, 1), x=(3, 2, 2), call=["x", {}])
encoder = spec("TransformerEncoder", spec(E, 8, 2, FeedForward=16), 2, spec("LayerNorm", [8]))
make = lambda: nn.TransformerEncoder(
    nn.TransformerEncoderLayer(8, 2, 16), 2, nn.LayerNorm(8), enable_nested_tensor=False
)
case(
    "encoder",
    encoder,
    make,
    x=(5, 2, 8),
    call=["x", {"Causal": True}],
    run=lambda m, i: m(i["x"], mask=square(5), is_causal=True),
)
case(
    "encoder_nonorm",
    spec("TransformerEncoder", spec(E, 8, 2, FeedForward=16), 2, None),
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False),
    x=(5, 2, 8),
    call=["x", {}],
)
two = {"x": (5, 2, 8), "memory": (6, 2, 8)}
case("decoderlayer", spec(D, 8, 2, FeedForward=16), inputs=two, call=["x", "memory", {}, {}], forwards=2)
case(
    "decoderlayer_normfirst",
    spec(D, 8, 2, FeedForward=16, NormFirst=True, BatchFirst=True, NoBias=True),
    inputs=swap(two),
    constants={"padding": padding},
    call=["x", "memory", {"Causal": True}, {"KeyPadding": "padding"}],
    run=lambda m, i: m(
        i["x"], i["memory"], tgt_mask=square(5), tgt_is_causal=True, memory_key_padding_mask=i["padding"]
    ),
)
case(
    "decoder",
    spec("TransformerDecoder", spec(D, 8, 2, **gelu), 2, spec("LayerNorm", [8])),
    lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, activation="gelu"), 2, nn.LayerNorm(8)),
    inputs=two,
    call=["x", "memory", {"Causal": True}, {}],
    run=lambda m, i: m(i["x"], i["memory"], tgt_mask=square(5), tgt_is_causal=True),
)
case(
    "transformer",
    spec("Transformer", 8, 2, 2, 1, FeedForward=16),
    inputs={"src": (6, 2, 8), "tgt": (5, 2, 8)},
    constants={"padding": padding},
    call=[
        "src",
        "tgt",
        {"Source": {"KeyPadding": "padding"}, "Target": {"Causal": True}, "Memory": {"KeyPadding": "padding"}},
    ],
    run=lambda m, i: m(
        i["src"],
        i["tgt"],
        tgt_mask=square(5),
        tgt_is_causal=True,
        src_key_padding_mask=i["padding"],
        memory_key_padding_mask=i["padding"],
    ),
)
