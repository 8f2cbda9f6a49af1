"""Golden values from transformers' ModernBERT with its heads: python modernbert.py writes modernbert.safetensors and
modernbert.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

SIZES = dict(
    hidden_size=32,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=40,
    local_attention=8,
    pad_token_id=0,
    bos_token_id=2,
    eos_token_id=3,
    cls_token_id=2,
    sep_token_id=3,
)
DROPOUT = dict(attention_dropout=0.1, embedding_dropout=0.2, mlp_dropout=0.1, classifier_dropout=0.1)
BIASED = dict(
    DROPOUT,
    classifier_pooling="mean",
    attention_bias=True,
    mlp_bias=True,
    norm_bias=True,
    classifier_bias=True,
    decoder_bias=False,
    num_hidden_layers=2,
    layer_types=["sliding_attention", "full_attention"],
    hidden_activation="silu",
    classifier_activation="relu",
    initializer_cutoff_factor=1.5,
    norm_eps=1e-6,
    rope_parameters=dict(
        full_attention=dict(rope_type="default", rope_theta=500.0),
        sliding_attention=dict(rope_type="default", rope_theta=50.0),
    ),
)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "without padding": dict(length=5),
    "shorter than the window": dict(length=3),
    "eager without padding": dict(length=5, attention="eager"),
    "eager shorter than the window": dict(length=3, attention="eager"),
    "bf16": dict(bf16=True),
    "eager bf16": dict(bf16=True, attention="eager"),
    "checkpointing": dict(checkpointing=True),
    "bf16 checkpointing": dict(bf16=True, checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "eager, weights of bf16": dict(dtype="bfloat16", attention="eager"),
}
FEW = {k: WAYS[k] for k in ("sdpa", "eager", "bf16", "weights of bf16")}
encoder.write(
    str(here / "modernbert"),
    "ModernBert",
    [
        ("modernbert", SIZES, ["TokenClassification"], WAYS, True),
        ("modernbert", SIZES, ["SequenceClassification", "QuestionAnswering", "MaskedLM"], FEW, True),
        ("modernbert with dropout", SIZES | DROPOUT, ["SequenceClassification"], WAYS, True),
        ("modernbert with dropout", SIZES | DROPOUT, ["QuestionAnswering", "MaskedLM"], FEW, False),
        ("modernbert with biases", SIZES | BIASED, ["SequenceClassification", "MaskedLM"], FEW, True),
    ],
)
