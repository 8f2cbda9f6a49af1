"""Golden values from transformers' ConvNextForImageClassification and ConvNextV2ForImageClassification: python
convnext.py writes convnext.safetensors and convnext.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

HEADS = ["ImageClassification"]
SIZES = dict(hidden_sizes=[8, 12], depths=[1, 2], num_stages=2, image_size=16, patch_size=2)
DROP = dict(drop_path_rate=0.5, layer_scale_init_value=0.3)
OTHER = dict(
    hidden_sizes=[6, 8, 5],
    depths=[2, 1, 1],
    num_stages=3,
    image_size=[12, 20],
    patch_size=[2, 3],
    num_channels=1,
    hidden_act="gelu_new",
    layer_norm_eps=1e-6,
    layer_scale_init_value=0.0,
    initializer_range=0.5,
    drop_path_rate=0.2,
)
WAYS = {"float32": dict(), "bf16": dict(bf16=True), "weights of bf16": dict(dtype="bfloat16")}
SIZED = WAYS | {"larger pictures": dict(length=19)}
encoder.write(
    str(here / "convnext"),
    "ConvNext",
    [
        ("convnext", SIZES, HEADS, WAYS, True),
        ("convnext with drop path", SIZES | DROP, HEADS, WAYS, True),
        ("convnext with other settings", OTHER, HEADS, SIZED, True),
        ("convnextv2", SIZES, HEADS, WAYS, True, "ConvNextV2"),
        (
            "convnextv2 with drop path",
            SIZES | dict(drop_path_rate=0.5, initializer_range=0.3),
            HEADS,
            WAYS,
            True,
            "ConvNextV2",
        ),
    ],
)
