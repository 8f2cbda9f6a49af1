"""Writes padding.json: what the data collators of transformers 5.17 make of sequences, which Pad and Collator must
repeat.
"""

import json
import pathlib
import tempfile

from transformers import BertTokenizerFast, DataCollatorForTokenClassification, DataCollatorWithPadding

with tempfile.TemporaryDirectory() as folder:
    vocabulary = pathlib.Path(folder) / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(90))]) + "\n")
    golden = []
    for side in ("right", "left"):
        tokenizer = BertTokenizerFast(str(vocabulary), padding_side=side)
        for lengths in ([3, 1, 5], [8], [2, 9, 4, 4]):
            ids = [[5 + 10 * row + k for k in range(n)] for row, n in enumerate(lengths)]
            samples = [{"input_ids": r, "token_type_ids": [k % 2 for k in range(len(r))]} for r in ids]
            for multiple in (None, 4, 8):
                for length in (None, 10):
                    padding = {
                        "padding": "max_length" if length else True,
                        "max_length": length,
                        "pad_to_multiple_of": multiple,
                    }
                    batch = DataCollatorWithPadding(tokenizer, **padding)([dict(s) for s in samples])
                    labelled = [{"input_ids": r, "labels": [x % 7 for x in r]} for r in ids]
                    labels = DataCollatorForTokenClassification(tokenizer, **padding)(labelled)["labels"]
                    golden.append(
                        {
                            "left": side == "left",
                            "multiple": multiple or 0,
                            "length": length or 0,
                            "lengths": lengths,
                            "input_ids": batch["input_ids"].tolist(),
                            "token_type_ids": batch["token_type_ids"].tolist(),
                            "attention_mask": batch["attention_mask"].tolist(),
                            "labels": labels.tolist(),
                        }
                    )
(pathlib.Path(__file__).parent / "padding.json").write_text("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")
