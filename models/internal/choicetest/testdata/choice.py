"""Golden values from transformers' models for multiple choice: python choice.py writes choice.safetensors and choice.json
beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

SIZES = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=40
)
TYPED = dict(SIZES, type_vocab_size=2)
DISTIL = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=40, seq_classif_dropout=0.3)
MODERN = dict(SIZES, local_attention=8, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3)
DEBERTA = dict(
    SIZES,
    type_vocab_size=0,
    relative_attention=True,
    position_buckets=4,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    pos_att_type=["p2c", "c2p"],
    position_biased_input=False,
    pooler_hidden_size=32,
    cls_dropout=0.2,
)
WAYS = {
    "padded": dict(),
    "bf16": dict(bf16=True),
    "checkpointing": dict(checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
}
FEW = {k: WAYS[k] for k in ("padded", "weights of bf16")}
encoder.write(
    str(here / "choice"),
    "Bert",
    [
        (label, settings, ["MultipleChoice"], ways, True, kind)
        for label, kind, settings, ways in [
            ("bert", "Bert", dict(TYPED, classifier_dropout=0.2), WAYS),
            ("roberta", "Roberta", dict(SIZES, pad_token_id=0), WAYS),
            ("xlm-roberta", "XLMRoberta", dict(SIZES, pad_token_id=0), FEW),
            ("distilbert", "DistilBert", DISTIL, FEW),
            ("electra", "Electra", dict(TYPED, embedding_size=16, summary_last_dropout=0.3), WAYS),
            ("mpnet", "MPNet", SIZES, FEW),
            ("modernbert", "ModernBert", dict(MODERN, classifier_dropout=0.1), WAYS),
            ("modernbert, mean", "ModernBert", dict(MODERN, classifier_pooling="mean"), FEW),
            ("deberta", "DebertaV2", DEBERTA, WAYS),
        ]
    ],
)
