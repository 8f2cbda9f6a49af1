"""Golden values from transformers' SiglipModel: python siglip.py writes siglip.safetensors and siglip.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, a run of transformers.Trainer, and how
well some texts describe an image, by the pipeline "zero-shot-image-classification".
"""

import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import tokenizer
import torch
from causal import generator, parameters, rows, tensors
from PIL import Image
from transformers import (
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    Trainer,
    TrainingArguments,
    ZeroShotImageClassificationPipeline,
)

SIDE, LENGTH = 12, 24
TEXT = dict(
    vocab_size=100,
    hidden_size=20,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=LENGTH,
)
VISION = dict(
    hidden_size=20,
    intermediate_size=28,
    num_hidden_layers=2,
    num_attention_heads=5,
    image_size=SIDE,
    patch_size=4,
)
MODELS = {  # name: settings
    "siglip": dict(text_config=TEXT, vision_config=VISION),
    "siglip with dropout": dict(
        text_config=TEXT | dict(attention_dropout=0.1), vision_config=VISION | dict(attention_dropout=0.2)
    ),
    "siglip with other settings": dict(
        text_config=TEXT
        | dict(hidden_act="gelu", layer_norm_eps=1e-4, num_hidden_layers=1, hidden_size=16, projection_size=20),
        vision_config=VISION | dict(hidden_act="quick_gelu", patch_size=5, layer_norm_eps=1e-3, num_hidden_layers=3),
        initializer_factor=2.0,
    ),
}
WAYS = {
    "sdpa": dict(attention="sdpa"),
    "eager": dict(attention="eager"),
    "full length": dict(attention="sdpa", full=True),
    "eager, full length": dict(attention="eager", full=True),
    "bf16": dict(attention="sdpa", bf16=True),
    "eager bf16": dict(attention="eager", bf16=True),
    "checkpointing": dict(attention="sdpa", checkpointing=True),
    "weights of bf16": dict(attention="sdpa", half=True),
    "eager, weights of bf16": dict(attention="eager", half=True),
    "positions for larger images": dict(attention="sdpa", side=21),
}
FEW = ("sdpa", "eager", "bf16", "weights of bf16", "positions for larger images")
out = {"models": []}
g = torch.Generator().manual_seed(2)
raw = {n: torch.randint(0, 256, (k, 3, n, n), generator=g, dtype=torch.uint8) for n, k in {SIDE: 48, 21: 4}.items()}
tensors.update({f"images.{n}": v for n, v in raw.items()})
pixels = {n: v.float() / 128 - 1 for n, v in raw.items()}
pad = lambda ts, value: torch.nn.utils.rnn.pad_sequence(ts, batch_first=True, padding_value=value)


def batch(at, full=False, side=SIDE):
    """full: texts are padded to the largest number of tokens, and padding is attended to"""
    some = [rows[i] for i in at]
    given = dict(input_ids=pad(some, 1), attention_mask=pad([torch.ones_like(t) for t in some], 0))
    if full:
        ids = given["input_ids"]
        given = dict(input_ids=torch.nn.functional.pad(ids, (0, LENGTH - ids.shape[1]), value=1))
    if side != SIDE:
        given["interpolate_pos_encoding"] = True
    return dict(given, pixel_values=pixels[side][at], return_loss=True)


for label, settings in MODELS.items():

    def make(attention="sdpa", dtype=torch.float32):
        torch.manual_seed(42)
        return SiglipModel._from_config(SiglipConfig(**settings), attn_implementation=attention, dtype=dtype)

    model = make()
    entry = dict(name=label, generator=generator(), initial=parameters(model), cases=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))

    for way in WAYS if label == "siglip with dropout" else FEW:
        how, name = WAYS[way], f"{label}, {way}"
        dtype = torch.bfloat16 if how.get("half") else torch.float32
        model = make(how["attention"], dtype).train()
        if how.get("checkpointing"):
            model.gradient_checkpointing_enable()
        given = batch(range(4), how.get("full", False), how.get("side", SIDE))
        given["pixel_values"] = given["pixel_values"].to(dtype)
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
            result = model(**given)
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
            evaluated = model(**given).logits_per_text
        tensors.update(
            {
                name + ".logits": result.logits_per_text.detach().clone(),
                name + ".loss": result.loss.detach(),
                name + ".eval": evaluated,
            }
        )
        sum_ = lambda p: causal.sha(p.view(torch.int16) if p.dtype == torch.bfloat16 else p)
        entry["cases"].append(
            dict(
                how,
                name=name,
                generator=after,
                grads={n: sum_(p.grad) for n, p in model.named_parameters()},
                norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
            )
        )

    model = make()
    args = TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        max_steps=20,
        remove_unused_columns=False,
    )
    trainer = Trainer(model=model, args=args, train_dataset=list(range(48)), data_collator=batch)
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=parameters(model),
    )

    model.eval()
    picture = Image.frombytes("RGB", (21, 21), raw[21][0].permute(1, 2, 0).contiguous().numpy().tobytes())
    tok = tokenizer.make()
    pipe = ZeroShotImageClassificationPipeline(
        model=model,
        tokenizer=tok,
        image_processor=SiglipImageProcessorPil(size=dict(height=SIDE, width=SIDE)),
    )
    labels = ["a cat", "dogs", "a red running shoe in the rain", "2"]
    pipe._preprocess_params["tokenizer_kwargs"] = dict(max_length=LENGTH)  # instead of 64, which it takes no other way
    found = pipe(picture, candidate_labels=labels)
    entry["scores"] = [next(f["score"] for f in found if f["label"] == label) for label in labels]
    with torch.no_grad():
        tensors[label + ".texts"] = model.get_text_features(
            **tok(labels, padding="max_length", return_tensors="pt")
        ).pooler_output
    out["models"].append(entry)

causal.write(str(here / "siglip"), out)
