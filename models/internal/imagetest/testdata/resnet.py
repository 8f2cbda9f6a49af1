"""Golden values from transformers' ResNetForImageClassification: python resnet.py writes resnet.safetensors and
resnet.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

HEADS = ["ImageClassification"]
BASIC = dict(embedding_size=6, hidden_sizes=[6, 12], depths=[2, 1], layer_type="basic")
BOTTLENECK = dict(embedding_size=6, hidden_sizes=[16, 24], depths=[1, 2])
OTHER = dict(
    embedding_size=5,
    hidden_sizes=[9, 12],
    depths=[1, 2],
    downsample_in_first_stage=True,
    downsample_in_bottleneck=True,
    hidden_act="gelu",
    num_channels=1,
)
WAYS = {"float32": dict(), "bf16": dict(bf16=True), "weights of bf16": dict(dtype="bfloat16")}
encoder.write(
    str(here / "resnet"),
    "ResNet",
    [
        ("basic", BASIC, HEADS, WAYS, True),
        ("bottleneck", BOTTLENECK, HEADS, WAYS, True),
        ("other settings", OTHER, HEADS, WAYS | {"larger pictures": dict(length=45)}, True),
    ],
)
