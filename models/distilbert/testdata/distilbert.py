"""Golden values from transformers' DistilBertForSequenceClassification: python distilbert.py writes
distilbert.safetensors and distilbert.json beside it.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(here, "..", "..", "internal", "modeltest"))
import golden  # first, since it chooses the code paths of libtorch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, DistilBertModel

golden.write(
    os.path.join(here, "distilbert"),
    DistilBertConfig,
    DistilBertForSequenceClassification,
    DistilBertModel,
    dict(vocab_size=50, dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=20),
    pad=0,
    typed=False,
    names=dict(dropout="dropout", attention="attention_dropout", act="activation", classifier="seq_classif_dropout"),
)
