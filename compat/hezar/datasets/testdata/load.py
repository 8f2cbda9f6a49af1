"""Data sets as the Hub holds them, a folder each under hub/, and load.json: what Hezar 1.0.0 makes of their splits. Needs
hezar and datasets.
"""

import io
import json
import os
import pathlib
import shutil
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import datasets
import numpy as np
import pyarrow.parquet as pq
from hezar.configs import DatasetConfig
from hezar.data import OCRDataset, SequenceLabelingDataset, TextClassificationDataset
from hezar.data.datasets import OCRDatasetConfig, SequenceLabelingDatasetConfig, TextClassificationDatasetConfig
from hezar.preprocessors import ImageProcessor, ImageProcessorConfig, PreprocessorsContainer
from hezar.preprocessors.tokenizers import WordPieceTokenizer
from PIL import Image

here = pathlib.Path(__file__).parent
hub = here / "hub"
shutil.rmtree(hub, ignore_errors=True)


def png(seed):
    out = io.BytesIO()
    Image.fromarray(np.random.RandomState(seed).randint(0, 256, (6, 9, 3)).astype(np.uint8)).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": f"{seed}.png"}


def write(name, config, features, splits):
    (hub / name / "data").mkdir(parents=True)
    for split, shards in splits.items():
        for i, rows in enumerate(shards):
            table = datasets.Dataset.from_dict(
                {k: [r[j] for r in rows] for j, k in enumerate(features)}, features=datasets.Features(features)
            )
            table.to_parquet(hub / name / "data" / f"{split}-{i:05d}-of-{len(shards):05d}.parquet")
    config.save(str(hub / name), "dataset_config.yaml")


write(
    "ocr",
    OCRDatasetConfig(path="hezarai/plates", max_length=8, reverse_digits=True, max_size=0.9),
    {"image_path": datasets.Image(), "label": datasets.Value("string")},
    {
        "train": [
            [(png(0), "۱۲ب۳۴۵۶۷"), (png(1), "ABC")],
            [(png(2), "۸۹ه۱۲۳۴۵"), (png(3), "۱۲ب۳۴۵۶۷۸"), (png(4), "ب۱۲")],
        ],
        "test": [[(png(5), "۳۳۳")]],
    },
)
write(
    "texts",
    TextClassificationDatasetConfig(path="hezarai/sentiment", label_field="label", text_field="comment", max_length=6),
    {"comment": datasets.Value("string"), "label": datasets.ClassLabel(names=["negative", "positive"])},
    {"train": [[("کتاب خوب", 1), ("این بد بود .", 0)]]},
)
write(
    "tags",
    SequenceLabelingDatasetConfig(
        path="hezarai/ner", tokens_field="tokens", tags_field="ner_tags", label_all_tokens=False, is_iob_schema=True
    ),
    {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-x", "I-x"])),
    },
    {"train": [[(["کتابها", "خوب"], [1, 0]), (["dog"], [2])]]},
)

image = PreprocessorsContainer(
    {
        "image_processor": ImageProcessor(
            ImageProcessorConfig(gray_scale=True, mirror=True, size=(8, 4), rescale=1 / 255)
        )
    }
)
text = PreprocessorsContainer(
    {"wordpiece_tokenizer": WordPieceTokenizer.load(str(here.parent.parent / "preprocessors" / "testdata" / "model"))}
)
out = {}
with tempfile.TemporaryDirectory() as cache:
    for name, cls, preprocessor in (
        ("ocr", OCRDataset, image),
        ("texts", TextClassificationDataset, text),
        ("tags", SequenceLabelingDataset, text),
    ):
        config = DatasetConfig.load(str(hub / name), filename="dataset_config.yaml")
        config.path = str(hub / name)
        cls.cache_dir = cache
        d = cls(config, split="train", preprocessor=preprocessor)
        samples = [d[i] for i in range(len(d))]
        out[name] = {
            "id2label": list(d.config.id2label.values()),
            "samples": [
                {
                    k: np.asarray(v, dtype=np.float32).ravel().tolist()
                    if k == "pixel_values"
                    else list(v)
                    if hasattr(v, "__len__")
                    else v
                    for k, v in s.items()
                }
                for s in samples
            ],
        }
        if name == "ocr":
            out[name]["invalid"] = [row["label"] for row in d.invalid_data]
json.dump(out, open(here / "load.json", "w"), ensure_ascii=False)
