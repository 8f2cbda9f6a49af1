"""Golden values from transformers' Dinov2ForImageClassification and Dinov2WithRegistersForImageClassification: python
dinov2.py writes dinov2.safetensors and dinov2.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

HEADS = ["ImageClassification"]
SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=12, patch_size=4)
DROP = dict(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2, drop_path_rate=0.3)
OTHER = dict(
    use_swiglu_ffn=True,
    mlp_ratio=3,
    qkv_bias=False,
    layerscale_value=0.5,
    num_channels=1,
    layer_norm_eps=1e-5,
    initializer_range=0.3,
)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "larger images": dict(length=21),
    "smaller images, eager": dict(length=9, attention="eager"),
    "bf16": dict(bf16=True),
    "checkpointing": dict(checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "larger images, weights of bf16": dict(length=21, dtype="bfloat16"),
}
FEW = {k: WAYS[k] for k in ("sdpa", "eager", "bf16", "larger images", "larger images, weights of bf16")}
REGISTERS = "Dinov2WithRegisters"
encoder.write(
    str(here / "dinov2"),
    "Dinov2",
    [
        ("dinov2", SIZES, HEADS, FEW, True),
        ("dinov2 with dropout", SIZES | DROP, HEADS, WAYS, True),
        ("dinov2 with other settings", SIZES | OTHER | dict(use_mask_token=False), HEADS, FEW, True),
        ("dinov2 with registers", SIZES | dict(num_register_tokens=2), HEADS, FEW, True, REGISTERS),
        ("dinov2 with registers and other settings", SIZES | DROP | OTHER, HEADS, WAYS, True, REGISTERS),
    ],
)
