"""Golden values from transformers' ViTForImageClassification and DeiTForImageClassification: python vit.py writes
vit.safetensors, vit.json and the same of deit beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

HEADS = ["ImageClassification"]
SIZES = dict(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    image_size=12,
    patch_size=4,
    num_channels=3,
)
DROPOUT = dict(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2)
OTHER = dict(
    DROPOUT,
    image_size=[8, 18],
    patch_size=[4, 5],
    num_channels=1,
    qkv_bias=False,
    hidden_act="gelu_new",
    layer_norm_eps=1e-6,
    initializer_range=0.5,
)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "positions for larger pictures": dict(length=20),
    "eager, positions for smaller pictures": dict(length=9, attention="eager"),
    "bf16": dict(bf16=True),
    "eager bf16": dict(bf16=True, attention="eager"),
    "checkpointing": dict(checkpointing=True),
    "bf16 checkpointing": dict(bf16=True, checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "eager, weights of bf16": dict(dtype="bfloat16", attention="eager"),
    "positions of bf16": dict(length=20, dtype="bfloat16"),
}
FEW = {k: WAYS[k] for k in ("sdpa", "eager", "bf16", "weights of bf16")}
encoder.write(
    str(here / "vit"),
    "ViT",
    [
        ("vit", SIZES, HEADS, FEW, True),
        ("vit with dropout", SIZES | DROPOUT, HEADS, WAYS, True),
        ("vit with other settings", SIZES | OTHER, HEADS, FEW, True),
    ],
)
encoder.write(str(here / "deit"), "DeiT", [("deit", SIZES | DROPOUT, HEADS, WAYS, True)])
