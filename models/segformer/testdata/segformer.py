"""Golden values from transformers' SegformerForSemanticSegmentation and SegformerForImageClassification: python
segformer.py writes segformer.safetensors and segformer.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

BOTH = ["SemanticSegmentation", "ImageClassification"]
MAPS = BOTH[:1]
SIZES = dict(
    num_encoder_blocks=2,
    hidden_sizes=[8, 12],
    depths=[1, 2],
    num_attention_heads=[1, 2],
    sr_ratios=[2, 1],
    patch_sizes=[7, 3],
    strides=[4, 2],
    mlp_ratios=[2, 3],
    decoder_hidden_size=10,
    image_size=[16, 24],
)
DROP = dict(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, classifier_dropout_prob=0.3, drop_path_rate=0.5)
PLAIN = dict(classifier_dropout_prob=0.0, drop_path_rate=0.0)
OTHER = dict(
    num_encoder_blocks=3,
    hidden_sizes=[6, 8, 4],
    depths=[2, 1, 1],
    num_attention_heads=[2, 4, 1],
    sr_ratios=[3, 2, 1],
    patch_sizes=[3, 4, 1],
    strides=[2, 2, 1],
    mlp_ratios=[1, 2, 3],
    decoder_hidden_size=7,
    image_size=[15, 12],
    num_channels=1,
    hidden_act="gelu_new",
    initializer_range=0.3,
    semantic_loss_ignore_index=255,
)
WAYS = {
    "sdpa": dict(attention="sdpa"),
    "eager": dict(attention="eager"),
    "bf16": dict(bf16=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "eager, weights of bf16": dict(attention="eager", dtype="bfloat16"),
    "checkpointing": dict(checkpointing=True),
    "larger pictures": dict(length=19),
}
FEW = {k: WAYS[k] for k in ("sdpa", "eager", "bf16")}
encoder.write(
    str(here / "segformer"),
    "Segformer",
    [
        ("segformer", SIZES | PLAIN, BOTH, FEW, True),
        ("segformer with dropout", SIZES | DROP, BOTH, WAYS, True),
        ("segformer with other settings", OTHER, MAPS, FEW, True),
        ("segformer with one label", SIZES | dict(num_labels=1), MAPS, FEW, True),
    ],
)
