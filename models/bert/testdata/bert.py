"""Golden values from transformers' BertForSequenceClassification: python bert.py writes bert.safetensors and bert.json
beside it.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(here, "..", "..", "internal", "modeltest"))
import golden  # first, since it chooses the code paths of libtorch
from transformers import BertConfig, BertForSequenceClassification, BertModel

golden.write(
    os.path.join(here, "bert"),
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    dict(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=20,
    ),
    pad=0,
    typed=True,
    names=dict(
        dropout="hidden_dropout_prob",
        attention="attention_probs_dropout_prob",
        act="hidden_act",
        classifier="classifier_dropout",
    ),
)
