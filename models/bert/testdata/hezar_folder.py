"""A folder that Hezar's Model.save writes, and its logits: python hezar_folder.py writes hezar_folder/ and
hezar_folder.safetensors beside it.

Needs hezar 1.0.0, transformers 5.17.0 and torch 2.11.0.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from hezar.models import BertTextClassification, BertTextClassificationConfig
from goldenfile import save_file

here = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
torch.manual_seed(4)
model = BertTextClassification(
    BertTextClassificationConfig(
        id2label={0: "bad", 1: "fair", 2: "good"},
        num_labels=3,
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=10,
    )
).eval()
model.save(os.path.join(here, "hezar_folder"))
ids, mask = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
with torch.no_grad():
    logits = model(ids, attention_mask=mask)["logits"]
save_file(
    {"ids": ids, "mask": mask, "logits": logits.contiguous()},
    os.path.join(here, "hezar_folder.safetensors"),
    metadata={"torch": torch.__version__, "hezar": "1.0.0"},
)
