"""Golden files of Hezar 1.0.0: python golden.py writes images/ (pictures through its image processor) and model/
(preprocessors as it saves them) beside it.
"""

import json
import pathlib

import numpy as np
import torch
from hezar.preprocessors import ImageProcessor, ImageProcessorConfig, TextNormalizer, TextNormalizerConfig
from hezar.preprocessors.tokenizers import WordPieceConfig, WordPieceTokenizer
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

here = pathlib.Path(__file__).parent
rng = np.random.RandomState(1)
CASES = [
    ("one_column", (9, 1), {"gray_scale": True, "size": [5, 7]}),
    ("one_pixel_wide_target", (8, 11), {"size": [1, 6], "resample": 1}),
    ("up_nearest", (5, 4), {"size": [13, 9], "resample": 0, "mirror": True}),
    ("down_hamming_gray", (17, 23), {"gray_scale": True, "size": [6, 5], "resample": 5}),
    (
        "all",
        (11, 29),
        {"gray_scale": True, "mirror": True, "size": [24, 8], "rescale": 1 / 255, "mean": [0.4], "std": [0.3]},
    ),
    ("channels", (6, 5), {"rescale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}),
    ("one_mean_for_three", (6, 5), {"rescale": 0.5, "mean": [0.5], "std": [2.0]}),
    ("mean_without_std", (5, 5), {"rescale": 0.25, "mean": [0.5]}),
    ("bytes_wrap", (4, 6), {"mean": [100.7, 3, 250], "std": [2.5, 1, 7]}),
    ("nothing", (4, 4), {}),
    ("one_row", (1, 9), {"gray_scale": True, "rescale": 0.5}),
    ("one_row_of_colour", (1, 8), {"mirror": True, "size": [7, 5]}),
    ("two_rows", (2, 12), {"gray_scale": True, "mirror": True, "size": [6, 9]}),
    ("three_rows_as_they_are", (3, 7), {"rescale": 0.5, "mean": [1.0, 2.0, 3.0], "std": [2.0, 3.0, 4.0]}),
    ("resized_to_two_rows", (9, 8), {"size": [10, 2]}),
    ("gray_to_two_rows", (9, 8), {"size": [10, 2], "gray_scale": True, "mirror": True}),
    ("three_rows_to_three", (3, 9), {"size": [4, 3]}),
    ("three_rows", (3, 12), {"gray_scale": True, "size": [10, 8]}),
    ("three_rows_of_colour", (3, 12), {"mirror": True}),
]
tensors, index = {}, []
for name, (h, w), config in CASES:
    picture = rng.randint(0, 256, (h, w, 3)).astype(np.uint8)
    args = {**config, **({"size": tuple(config["size"])} if "size" in config else {})}
    out = ImageProcessor(ImageProcessorConfig(**args))([picture], return_tensors="torch")["pixel_values"]
    tensors["in." + name], tensors["out." + name] = torch.from_numpy(picture), out[0].contiguous()
    index.append({"case": name, "config": config, "shape": list(out.shape)})
GREY, COLOUR = {"mean": [0.4], "std": [0.3]}, {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
FLOATS = [
    ("floats", (7, 5, 3), {}),
    ("floats_rescaled", (7, 5, 3), {"rescale": 1 / 255}),
    ("floats_normalised", (7, 5, 3), COLOUR),
    ("floats_all", (6, 9, 3), {"rescale": 1 / 255, **COLOUR}),
    ("floats_one_mean", (6, 5, 3), {"rescale": 0.5, "mean": [0.5], "std": [2.0]}),
    ("floats_one_channel", (5, 6, 1), {"rescale": 1 / 255, **GREY}),
    ("floats_gray", (6, 5), {"gray_scale": True}),
    ("floats_gray_all", (9, 11), {"gray_scale": True, "mirror": True, "size": [12, 8], "rescale": 1 / 255, **GREY}),
    ("floats_of_colour_gray", (6, 5, 3), {"gray_scale": True}),
    ("floats_mirrored", (6, 5, 3), {"mirror": True}),
    ("floats_resized", (6, 5, 1), {"size": [4, 4]}),
    ("floats_flat", (6, 5), {"rescale": 0.5}),
]
for name, shape, config in FLOATS:
    picture = (rng.rand(*shape) * 300 - 20).astype(np.float32)
    args = {**config, **({"size": tuple(config["size"])} if "size" in config else {})}
    tensors["in." + name], entry = torch.from_numpy(picture), {"case": name, "config": config}
    try:
        out = ImageProcessor(ImageProcessorConfig(**args))([picture], return_tensors="torch")["pixel_values"]
        tensors["out." + name], entry["shape"] = out[0].contiguous(), list(out.shape)
    except (TypeError, ValueError) as e:
        entry["error"] = f"{type(e).__name__}: {e}"
    index.append(entry)
(here / "images").mkdir(exist_ok=True)
save_file(tensors, here / "images/case.safetensors")
(here / "images/cases.json").write_text(json.dumps({"cases": index}, indent=1) + "\n")

pieces = "[PAD] [UNK] [SEP] [CLS] [MASK] کتاب خوب بد ##ها می ##روم . dog".split()
ids = {t: i for i, t in enumerate(pieces)}
t = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
t.pre_tokenizer, t.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece("##")
t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 2)])
model = here / "model"
model.mkdir(exist_ok=True)
t.save(str(model / "t.json"))
WordPieceTokenizer(WordPieceConfig(padding_side="left"), tokenizer_file=str(model / "t.json")).save(str(model))
(model / "t.json").unlink()
TextNormalizer(TextNormalizerConfig(replace_patterns=[["ي", "ی"], ["\\s+", " "]])).save(str(model))
ImageProcessor(
    ImageProcessorConfig(
        gray_scale=True, mirror=True, size=(96, 32), rescale=1 / 255, mean=[0.5], std=[0.5], resample=2
    )
).save(str(model))
