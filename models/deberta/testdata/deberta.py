"""Golden values from transformers' DeBERTa v2 with its heads: python deberta.py writes deberta.safetensors and
deberta.json beside it, and the classes of distances in buckets.json. See models/internal/modeltest/encoder.py.
"""

import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch
import torch
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

SIZES = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40
)
V3 = dict(
    SIZES,
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    position_buckets=8,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    position_biased_input=False,
    pooler_hidden_size=32,
)
V2 = dict(
    SIZES,
    relative_attention=True,
    pos_att_type="p2c|c2p",
    max_relative_positions=10,
    type_vocab_size=2,
    conv_kernel_size=3,
    conv_act="gelu",
    embedding_size=16,
    pooler_dropout=0.1,
    cls_dropout=0.2,
)
ONE = dict(
    SIZES,
    relative_attention=True,
    pos_att_type=["c2p"],
    conv_kernel_size=5,
    conv_groups=2,
    position_buckets=6,
    max_relative_positions=20,
    pooler_hidden_act="tanh",
    hidden_dropout_prob=0.0,
)
WAYS = {
    "masked": dict(),
    "without padding": dict(length=5),
    "bf16": dict(bf16=True),
    "checkpointing": dict(checkpointing=True),
    "bf16 checkpointing": dict(bf16=True, checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
}
FEW = {k: WAYS[k] for k in ("masked", "bf16", "weights of bf16")}
THREE = ["SequenceClassification", "TokenClassification", "QuestionAnswering"]
encoder.write(
    str(here / "deberta"),
    "DebertaV2",
    [
        ("v3", V3, ["SequenceClassification"], WAYS, True),
        ("v3", V3, [*THREE[1:], "MaskedLM"], FEW, True),
        ("v3 without legacy", dict(V3, legacy=False), ["MaskedLM"], FEW, True),
        ("v2 with a convolution", V2, ["TokenClassification"], WAYS, True),
        ("v2 with a convolution", V2, ["SequenceClassification", "MaskedLM"], FEW, True),
        ("c2p", ONE, ["SequenceClassification"], WAYS, False),
        ("p2c", dict(ONE, pos_att_type=["p2c"], conv_kernel_size=0), ["TokenClassification"], FEW, False),
        ("not disentangled", dict(SIZES), ["SequenceClassification", "MaskedLM"], FEW, False),
    ],
)

apart = torch.arange(-600, 601)
classes = [
    dict(buckets=b, farthest=f, classes=make_log_bucket_position(apart, b, f).long().tolist())
    for b, f in ((256, 512), (8, 40), (6, 20), (32, 128), (2, 10), (7, 33))
]
(here / "buckets.json").write_text(json.dumps(classes) + "\n")
