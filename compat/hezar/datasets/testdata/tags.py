"""Golden file of Hezar 1.0.0's SequenceLabelingDataset and its collator: python tags.py writes tags.json beside it. The
tokenizer is that of ../../preprocessors/testdata.
"""

import json
import pathlib

import datasets
from hezar.data.datasets.sequence_labeling_dataset import SequenceLabelingDataset, SequenceLabelingDatasetConfig
from hezar.preprocessors.tokenizers import WordPieceTokenizer

here = pathlib.Path(__file__).parent
ROWS = [(["کتابها", "خوب", "."], [1, 2, 0]), (["میروم"], [2]), (["bad", "dog", "کتابهاها", "."], [0, 1, 2, 0])]


class DS(SequenceLabelingDataset):
    def _load(self, split):
        return datasets.Dataset.from_dict(
            {"tokens": [r[0] for r in ROWS], "tags": [r[1] for r in ROWS]},
            features=datasets.Features(
                {
                    "tokens": datasets.Sequence(datasets.Value("string")),
                    "tags": datasets.Sequence(datasets.ClassLabel(names=["O", "A", "B"])),
                }
            ),
        )


out = {"rows": ROWS, "runs": []}
for every in (True, False):
    tok = WordPieceTokenizer.load(str(here / "../../preprocessors/testdata/model"))
    ds = DS(
        SequenceLabelingDatasetConfig(path="x", tags_field="tags", tokens_field="tokens", label_all_tokens=every),
        preprocessor=tok,
    )
    items = [ds[i] for i in range(len(ds))]
    batch = ds.data_collator([dict(x) for x in items])
    out["runs"].append(
        {
            "label_all_tokens": every,
            "labels": [x["labels"] for x in items],
            "batch": {k: v.tolist() for k, v in batch.items()},
        }
    )
(here / "tags.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
