"""Golden values from transformers' Wav2Vec2 and HuBERT, with CTC and as classifiers: python wav2vec2.py writes
wav2vec2.safetensors and wav2vec2.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, and a
run of transformers.Trainer with an evaluation, whose masks are those of numpy.
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
import numpy as np
import peft
import torch
import transformers
from causal import generator, sha, tensors
from safetensors.torch import load_file
from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices

VOCAB, SAMPLES = 12, 24
COMMON = dict(
    vocab_size=VOCAB,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    conv_dim=[8, 12],
    conv_stride=[5, 2],
    conv_kernel=[10, 3],
    num_conv_pos_embeddings=4,
    num_conv_pos_embedding_groups=2,
    classifier_proj_size=6,
    mask_time_prob=0.3,
    mask_time_length=3,
)
LAYER = dict(feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True)
MODELS = {  # class, whether padding is masked, settings
    "ctc": ("Wav2Vec2ForCTC", False, dict(mask_feature_prob=0.2, mask_feature_length=2, layerdrop=0.2)),
    "ctc of layer norms": (
        "Wav2Vec2ForCTC",
        True,
        LAYER
        | dict(
            num_conv_pos_embeddings=5,
            hidden_act="relu",
            feat_proj_dropout=0.1,
            ctc_loss_reduction="mean",
            ctc_zero_infinity=True,
            pad_token_id=3,
            mask_time_min_masks=0,
            mask_time_prob=0.1,
            layerdrop=0.0,
            initializer_range=0.1,
        ),
    ),
    "classifier": ("Wav2Vec2ForSequenceClassification", False, dict(num_labels=3, apply_spec_augment=False)),
    "classifier of all layers": (
        "Wav2Vec2ForSequenceClassification",
        True,
        LAYER | dict(num_labels=3, use_weighted_layer_sum=True, layerdrop=0.0, mask_time_prob=0.0),
    ),
    "hubert": ("HubertForCTC", True, dict(layerdrop=0.2, conv_bias=True, ctc_loss_reduction="mean")),
    "hubert of batch norms": (
        "HubertForSequenceClassification",
        False,
        dict(
            num_labels=3,
            conv_pos_batch_norm=True,
            feat_proj_layer_norm=False,
            mask_feature_prob=0.2,
            mask_feature_length=2,
        )
        | dict(use_weighted_layer_sum=True, layerdrop=0.0),
    ),
}
out = dict(models=[], masks=[])
g = torch.Generator().manual_seed(4)
draw = lambda low, high: int(torch.randint(low, high, (), generator=g))
samples = []
tensors.clear()
for i in range(SAMPLES):
    sound = torch.randn(draw(150, 320), generator=g)
    letters = torch.randint(4, VOCAB, (draw(1, 7),), generator=g)
    tensors.update({f"sound.{i}": sound, f"letters.{i}": letters})
    samples.append((sound, letters, draw(0, 3)))
tensors["classes"] = torch.tensor([s[2] for s in samples])


def shas(model, of=lambda p: p):
    as_bytes = lambda t: t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    return {n: sha(as_bytes(of(p))) for n, p in model.named_parameters() if of(p) is not None}


def norms(model):
    return {n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters() if p.grad is not None}


def collator(masked, ctc):
    pad = lambda ts, value: torch.nn.utils.rnn.pad_sequence(ts, batch_first=True, padding_value=value)

    def collate(some):
        b = dict(input_values=pad([s["samples"][0] for s in some], 0.0))
        if masked:
            b["attention_mask"] = pad([torch.ones(len(s["samples"][0]), dtype=torch.long) for s in some], 0)
        if ctc:
            b["labels"] = pad([s["samples"][1] for s in some], -100)
        else:
            b["labels"] = torch.tensor([s["samples"][2] for s in some])
        return b

    return collate


for label, (name, masked, settings) in MODELS.items():
    kind = getattr(transformers, name)
    ctc = name.endswith("CTC")
    collate = collator(masked, ctc)
    rows = [dict(samples=s) for s in samples]

    def make(attention=None, dtype=torch.float32):
        torch.manual_seed(42)
        return kind._from_config(kind.config_class(**(COMMON | settings)), attn_implementation=attention, dtype=dtype)

    model = make()
    entry = dict(name=label, masked=masked, ctc=ctc, generator=generator(), initial=shas(model), cases=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
        entry["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

    def case(name, attention=None, full=False, bf16=False, half=False):
        name = f"{label}, {name}"
        model = make(attention, torch.bfloat16 if half else torch.float32).train()
        given = collate(
            [dict(samples=(s["samples"][0][:150], *s["samples"][1:])) for s in rows[:4]] if full else rows[:4]
        )
        given["input_values"] = given["input_values"].to(model.dtype)
        torch.manual_seed(7)
        np.random.seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(**given)
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(**given).logits
        tensors.update(
            {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
        )
        entry["cases"].append(
            dict(
                name=name,
                attention=attention or "sdpa",
                full=full,
                bf16=bf16,
                half=half,
                generator=after,
                grads=shas(model, lambda p: p.grad),
                norms=norms(model),
            )
        )

    case("sdpa")
    case("eager", "eager")
    case("bf16", bf16=True)
    case("weights in bfloat16", half=True)
    case("without padding", full=True)

    def adapted():
        """A pass of the model with an adapter of peft"""
        model = peft.get_peft_model(
            make(),
            peft.LoraConfig(r=4, lora_dropout=0.1, init_lora_weights=False, target_modules=["q_proj", "v_proj"]),
        ).train()
        torch.manual_seed(7)
        np.random.seed(7)
        result = model(**collate(rows[:4]))
        result.loss.backward()
        tensors[f"{label}, adapter.logits"] = result.logits.detach()
        trained = {
            n.removeprefix("base_model.model.").replace(".default.", "."): p.grad
            for n, p in model.named_parameters()
            if p.requires_grad and p.grad is not None
        }
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            saved = {n: sha(p) for n, p in load_file(os.path.join(folder, "adapter_model.safetensors")).items()}
        return dict(
            saved=saved,
            grads={n: sha(g) for n, g in trained.items()},
            norms={n: float(f"{g.double().norm():.6g}") for n, g in trained.items()},
        )

    if label == "ctc of layer norms":
        entry["adapter"] = adapted()

    def train(model, steps=8, **arguments):
        args = transformers.TrainingArguments(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=8,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
            max_steps=steps,
            remove_unused_columns=False,
            **arguments,
        )
        trainer = transformers.Trainer(
            model=model, args=args, train_dataset=rows, eval_dataset=rows[:12], data_collator=collate
        )
        trainer.train()
        log = [r for r in trainer.state.log_history if "loss" in r]
        return dict(
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=shas(model),
            eval_loss=trainer.evaluate()["eval_loss"].hex(),
        )

    if label == "ctc":
        frozen = make()
        frozen.freeze_feature_encoder()
        entry["frozen"] = train(frozen)
        entry["accumulated"] = train(make(), gradient_accumulation_steps=2)
    entry["run"] = train(make())
    out["models"].append(entry)

for seed, shape, share, length, least, lengths in [
    (0, (3, 20), 0.5, 4, 0, None),
    (1, (3, 20), 0.05, 10, 2, None),
    (42, (4, 50), 0.2, 3, 1, [50, 3, 2, 20]),
    (7, (2, 700), 0.65, 1, 0, [700, 699]),
    (8, (2, 9), 0.01, 5, 0, None),
]:
    np.random.seed(seed)
    drawn = []
    for _ in range(3):
        mask = None
        if lengths is not None:
            mask = torch.arange(shape[1])[None] < torch.tensor(lengths)[:, None]
        found = _compute_mask_indices(shape, share, length, attention_mask=mask, min_masks=least)
        drawn.append([np.flatnonzero(row).tolist() for row in found])
    out["masks"].append(
        dict(seed=seed, shape=shape, share=share, length=length, least=least, lengths=lengths, drawn=drawn)
    )

causal.write(str(here / "wav2vec2"), out)
