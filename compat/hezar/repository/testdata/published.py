"""What Hezar makes of its published licence-plate labels, of which two are the same letter: the folder
published/ without its weights, and readings.json, texts of ids and ids of texts. Needs hezar 1.0.0."""

import json
import pathlib

import torch
from hezar.data import OCRDataset, OCRDatasetConfig
from hezar.models import CRNNImage2Text, CRNNImage2TextConfig
from hezar.preprocessors import ImageProcessor, ImageProcessorConfig, PreprocessorsContainer

letters = list("آابپتثجچهخدذرزژسشصضطظعغفقکگلمنوهی ۱۲۳۴۵۶۷۸۹۰")
config = CRNNImage2TextConfig(id2label=dict(enumerate(["", *letters])), reverse_output_digits=True)
model = CRNNImage2Text(config)
model.preprocessor = PreprocessorsContainer(
    {
        "image_processor": ImageProcessor(
            ImageProcessorConfig(
                mean=[0.6595], std=[0.1501], rescale=1 / 255, size=(256, 64), mirror=True, gray_scale=True
            )
        )
    }
)
out = pathlib.Path(__file__).parent / "published"
model.save(str(out))
(out / "model.pt").unlink()  # 37 MB of random numbers

ids = [[35, 36, 9, 37, 38, 39, 40, 41], [35, 36, 32, 37, 38, 39, 40, 41], [9, 32, 34], [44, 9]]
texts = [o.text for o in model.post_process(torch.tensor([row + [0] * (8 - len(row)) for row in ids]))]
dataset = OCRDataset.__new__(OCRDataset)
dataset.config = OCRDatasetConfig(id2label=config.id2label, text_split_type="char_split")
labels = [dataset._text_to_ids(text) for text in ["۱۲ه۳۴۵", "هه", "ب"]]
json.dump({"ids": ids, "texts": texts, "labels": labels}, open(out / "readings.json", "w"), ensure_ascii=False)
