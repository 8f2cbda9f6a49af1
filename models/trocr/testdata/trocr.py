"""Golden values from transformers' VisionEncoderDecoderModel of a ViT or DeiT and a TrOCRForCausalLM: python trocr.py
writes trocr.safetensors and trocr.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, a run
of transformers.Seq2SeqTrainer with an evaluation, and what generate writes about several pictures, with settings and
with defaults in files.
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
import encoder as pictured
import peft
import torch
from causal import generator, ragged, sha, tensors
from safetensors.torch import load_file
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
)

ENCODER = dict(
    model_type="vit",
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    image_size=[8, 16],
    patch_size=4,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.2,
)
DECODER = dict(
    model_type="trocr",
    vocab_size=causal.VOCAB,
    max_position_embeddings=20,
    d_model=24,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=32,
    pad_token_id=0,
    bos_token_id=3,
    eos_token_id=causal.END,
    decoder_start_token_id=2,
)
MODELS = {  # name: settings of the encoder, of the decoder, and of the whole
    "trocr": ({}, {}, dict(decoder_start_token_id=2, pad_token_id=0, eos_token_id=causal.END)),
    "trocr with sinusoids": (
        dict(model_type="deit", hidden_size=18, image_size=8, initializer_range=0.1),
        dict(
            d_model=18,
            decoder_attention_heads=2,
            use_learned_position_embeddings=False,
            layernorm_embedding=False,
            scale_embedding=True,
            activation_function="relu",
            attention_dropout=0.2,
            activation_dropout=0.1,
            decoder_layerdrop=0.3,
            init_std=0.05,
        ),
        dict(decoder_start_token_id=5, pad_token_id=0),
    ),
    "trocr of two widths": (
        dict(qkv_bias=False),
        dict(cross_attention_hidden_size=16, tie_word_embeddings=False, dropout=0.0, d_model=20, scale_embedding=True),
        dict(decoder_start_token_id=2, pad_token_id=0, eos_token_id=causal.END),
    ),
}
BEAMS = dict(num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3, max_length=14, early_stopping=True)
WAYS = [
    dict(max_new_tokens=12),
    dict(max_new_tokens=12, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
    dict(BEAMS),
    dict(max_new_tokens=8, num_beams=3, num_return_sequences=3),
    dict(max_new_tokens=6, num_beams=3, do_sample=True, repetition_penalty=1.5),
    dict(),
]
FILES = [
    ("generation_config.json", dict(BEAMS, eos_token_id=causal.END, pad_token_id=0, decoder_start_token_id=8)),
    ("config.json", dict(BEAMS)),
    ("decoder", dict(num_beams=2, length_penalty=0.5, max_length=9)),
]
out = {"models": []}
targets = ragged(48, 2)
tensors.clear()
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})


def name_in_files(name):
    """The name that a weight has in files"""
    return pictured.in_files(name, "ViT") if name.startswith("encoder.") else name


def named(model, of=lambda p: p):
    return {name_in_files(n): of(p) for n, p in model.named_parameters() if of(p) is not None}


def shas(model, of=lambda p: p):
    as_bytes = lambda t: t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    return {n: sha(as_bytes(p)) for n, p in named(model, of).items()}


def norms(model):
    return {n: float(f"{g.double().norm():.6g}") for n, g in named(model, lambda p: p.grad).items()}


def collate(samples):
    return dict(
        pixel_values=torch.stack([s["pixel_values"] for s in samples]),
        labels=torch.nn.utils.rnn.pad_sequence([s["labels"] for s in samples], batch_first=True, padding_value=-100),
    )


for label, (encoder, decoder, whole) in MODELS.items():
    sides = (ENCODER | encoder)["image_size"]
    pictures = pictured.pictures(3, *(sides if isinstance(sides, list) else [sides, sides]))
    samples = [dict(pixel_values=p["pixel_values"], labels=t) for p, t in zip(pictures, targets)]
    batch = collate(samples[:4])

    def make(attention=None, dtype=torch.float32):
        torch.manual_seed(42)
        return VisionEncoderDecoderModel._from_config(
            VisionEncoderDecoderConfig(encoder=ENCODER | encoder, decoder=DECODER | decoder, **whole),
            attn_implementation=attention,
            dtype=dtype,
        )

    model = make()
    entry = dict(name=label, generator=generator(), initial=shas(model), cases=[], texts=[], files=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
        entry["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

    def case(name, attention=None, full=False, bf16=False, half=False):
        name = f"{label}, {name}"
        model = make(attention, torch.bfloat16 if half else torch.float32).train()
        given = dict(batch, labels=batch["labels"][:, :3].clamp(min=1).contiguous()) if full else batch
        torch.manual_seed(7)
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
    if label == "trocr":
        case("without padding", full=True)
        case("eager bf16", "eager", bf16=True)
    case("weights in bfloat16", half=True)

    def adapted():
        """A pass of the model with an adapter of peft"""
        model = peft.get_peft_model(
            make(),
            peft.LoraConfig(r=4, lora_dropout=0.1, init_lora_weights=False, target_modules=["q_proj", "v_proj"]),
        ).train()
        torch.manual_seed(7)
        result = model(**batch)
        result.loss.backward()
        tensors[f"{label}, adapter.logits"] = result.logits.detach()
        trained = {
            name_in_files(n.removeprefix("base_model.model.").replace(".default.", ".")): p.grad
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

    entry["adapter"] = adapted()

    model = make()
    args = Seq2SeqTrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        max_steps=20,
    )
    trainer = Seq2SeqTrainer(
        model=model, args=args, train_dataset=samples, eval_dataset=samples[:4], data_collator=collate
    )
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=shas(model),
        eval_loss=trainer.evaluate()["eval_loss"].hex(),
    )
    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8 if p.dim() == 2 else 1)  # tokens that are far apart
    for chosen in WAYS:
        torch.manual_seed(3)
        entry["texts"].append(model.generate(batch["pixel_values"], **chosen)[:, 1:].tolist())
    for name, defaults in FILES:
        if "sinusoids" in label:  # from_pretrained of transformers 5.17 makes such a model without positions
            break
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save_pretrained(folder)
            (folder / "generation_config.json").unlink()
            written = defaults
            if name != "generation_config.json":
                written = json.loads((folder / "config.json").read_text())
                (written["decoder"] if name == "decoder" else written).update(defaults)
                if name == "decoder":
                    del written["eos_token_id"]
                name = "config.json"
            (folder / name).write_text(json.dumps(written))
            again = type(model).from_pretrained(folder)
            entry["files"].append(
                dict(name=name, content=written, rows=again.generate(batch["pixel_values"])[:, 1:].tolist())
            )
    out["models"].append(entry)

tensors.update({n: t for n, t in pictured.tensors.items() if n.startswith("pictures.")})
causal.write(str(here / "trocr"), out)
