"""The first program of Hezar's documentation, run by Hezar 1.0.0 itself on pictures that are drawn here: which files it
leaves, and the text of two of them.

Only what comes from the Hub is replaced: the data set is a CSV file, and the base model is made here with weights that
fit the data set's charset.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
import numpy as np
from hezar.data import OCRDataset, OCRDatasetConfig
from hezar.models import CRNNImage2Text, CRNNImage2TextConfig
from hezar.preprocessors import ImageProcessor, ImageProcessorConfig, Preprocessor, PreprocessorsContainer
from hezar.trainer import Trainer, TrainerConfig
from PIL import Image

here = pathlib.Path(__file__).resolve().parent


def draw(split, n):
    with open(f"{split}.csv", "w") as f:
        f.write("image_path,label\n")
        for i in range(n):
            Image.fromarray(np.random.RandomState(i).randint(0, 256, (32, 128)).astype(np.uint8)).save(
                f"{split}{i}.png"
            )
            f.write(f"{split}{i}.png,۱۲ب۳۴۵۶۷\n")


def load(split):
    return OCRDataset(
        OCRDatasetConfig(
            path="csv",
            max_length=8,
            reverse_digits=True,
            hf_load_kwargs={"data_files": {"train": "train.csv", "test": "test.csv"}},
        ),
        split=split,
        preprocessor=base_model_path,
    )


def size(id2label):
    """The pictures are 32 pixels high; Hezar's default is for 64."""
    return CRNNImage2TextConfig(id2label=id2label, map2seq_in_dim=1024)


with tempfile.TemporaryDirectory() as tmp:
    os.chdir(tmp)
    draw("train", 10)
    draw("test", 2)
    base_model_path = "base"
    OCRDataset.cache_dir = "cache"
    Image2Text = CRNNImage2Text(size(OCRDatasetConfig().id2label))
    Image2Text.preprocessor = PreprocessorsContainer(
        {
            "image_processor": ImageProcessor(
                ImageProcessorConfig(
                    mean=[0.5], std=[0.5], rescale=1 / 255, size=(128, 32), mirror=True, gray_scale=True
                )
            )
        }
    )
    Image2Text.save(base_model_path)

    train_dataset = load("train")
    eval_dataset = load("test")
    model = CRNNImage2Text(size(train_dataset.config.id2label))
    preprocessor = Preprocessor.load(base_model_path)
    train_config = TrainerConfig(
        output_dir="crnn-plate-fa-v1",
        task="image2text",
        device="cuda",
        init_weights_from=base_model_path,
        batch_size=8,
        num_epochs=2,
        metrics=["cer"],
        metric_for_best_model="cer",
    )
    trainer = Trainer(
        config=train_config,
        model=model,
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        data_collator=train_dataset.data_collator,
        preprocessor=preprocessor,
    )
    trainer.train()
    run = pathlib.Path("crnn-plate-fa-v1")
    names = []
    for path in sorted(p.relative_to(run) for p in run.rglob("*") if p.is_file()):
        parts = list(path.parts)
        if parts[0] == "logs":
            parts[1] = "RUN"  # date, time and host
            parts[-1] = parts[-1].split(".tfevents.")[0] + ".tfevents" if ".tfevents." in parts[-1] else parts[-1]
        names.append("/".join(parts))
    text = {
        name: (run / "checkpoints/4" / name).read_text()
        for name in [
            "train/dataset_config.yaml",
            "train/train_config.yaml",
            "model_config.yaml",
            "preprocessor/image_processor_config.yaml",
        ]
        if (run / "checkpoints/4" / name).is_file()
    }
    json.dump(
        {"python": sys.version.split()[0], "files": names, "text": text},
        open(here / "files.json", "w"),
        ensure_ascii=False,
        indent=1,
    )
