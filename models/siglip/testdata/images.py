"""Golden values from transformers' SiglipForImageClassification: python images.py writes images.safetensors and
images.json beside it. See models/internal/modeltest/encoder.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import encoder  # first, since it chooses the code paths of libtorch

TEXT = dict(vocab_size=60, hidden_size=16, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
VISION = dict(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=24,
    patch_size=8,
)
OTHER = dict(hidden_act="gelu", attention_dropout=0.2, patch_size=7)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "bf16": dict(bf16=True),
    "weights of bf16": dict(dtype="bfloat16"),
    "positions for smaller pictures": dict(length=16),
}
encoder.write(
    str(here / "images"),
    "Siglip",
    [
        ("siglip", dict(text_config=TEXT, vision_config=VISION), ["ImageClassification"], WAYS, True),
        (
            "siglip with other settings",
            dict(text_config=TEXT, vision_config=VISION | OTHER, initializer_factor=0.5),
            ["ImageClassification"],
            WAYS,
            True,
        ),
    ],
)
