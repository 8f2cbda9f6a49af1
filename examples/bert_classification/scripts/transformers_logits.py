"""Does transformers see in a folder that the example saved what Go sees? Token ids must be equal, logits equal to 1e-5.

    cut -f2 examples/bert_classification/sms/sms.tsv | head -200 > texts
    GOTRAINER_REPRODUCIBLE=1 go run ./examples/bert_classification -predict -json < texts > judged.jsonl
    python transformers_logits.py runs/bert_classification/model judged.jsonl

With that environment the logits are the same bits, and the last line counts them. Made for torch 2.11.0 and
transformers 5.17.
"""

import json
import os
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder, judged = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
rows = equal = 0
with open(judged, encoding="utf-8") as f, torch.no_grad():
    for line in f:
        go = json.loads(line)
        inputs = tokenizer(
            *go["text"].split("\t", 1),
            truncation=True,
            max_length=model.config.max_position_embeddings,
            return_tensors="pt",
        )
        assert inputs["input_ids"][0].tolist() == go["input_ids"], (
            go["text"],
            inputs["input_ids"][0].tolist(),
            go["input_ids"],
        )
        logits = model(**inputs).logits[0]
        want = torch.tensor(go["logits"])
        torch.testing.assert_close(logits, want, rtol=1e-5, atol=1e-5)
        assert model.config.id2label[int(logits.argmax())] == go["label"], go
        rows += 1
        equal += torch.equal(logits, want)
print(
    f"{rows} texts: token ids and labels equal; logits equal to the last bit for {equal} of them, within 1e-5 for all"
)
