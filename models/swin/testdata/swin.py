"""Golden values from transformers' SwinForImageClassification: python swin.py writes swin.safetensors and swin.json
beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

HEADS = ["ImageClassification"]
SIZES = dict(embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=3, mlp_ratio=2.0, image_size=24, patch_size=2)
DROP = dict(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2, drop_path_rate=0.5)
OTHER = dict(
    embed_dim=6,
    depths=[1, 2, 3],
    num_heads=[1, 3, 2],
    window_size=2,
    mlp_ratio=1.6,
    image_size=[20, 23],
    patch_size=[2, 3],
    num_channels=1,
    qkv_bias=False,
    hidden_act="gelu_new",
    layer_norm_eps=1e-3,
    initializer_range=0.1,
)
WAYS = {
    "sdpa": dict(attention="sdpa"),
    "eager": dict(attention="eager"),
    "odd maps": dict(length=19),
    "eager, odd maps": dict(length=19, attention="eager"),
    "one window in the last stage": dict(length=12),
    "bf16": dict(bf16=True),
    "eager bf16": dict(bf16=True, attention="eager"),
    "checkpointing": dict(checkpointing=True),
    "bf16 checkpointing": dict(bf16=True, checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "eager, weights of bf16": dict(dtype="bfloat16", attention="eager"),
}
FEW = {k: WAYS[k] for k in ("sdpa", "eager", "bf16", "weights of bf16")}
POSITIONS = FEW | {
    "positions for larger pictures": dict(length=26),
    "eager, positions for smaller pictures": dict(length=14, attention="eager"),
    "positions of bf16": dict(length=26, dtype="bfloat16"),
}
encoder.write(
    str(here / "swin"),
    "Swin",
    [
        ("swin", SIZES | dict(drop_path_rate=0.0), HEADS, FEW, True),
        ("swin with dropout", SIZES | DROP, HEADS, WAYS, True),
        ("swin with other settings", OTHER, HEADS, FEW, True),
        ("swin with positions", SIZES | dict(use_absolute_embeddings=True), HEADS, POSITIONS, True),
    ],
)
