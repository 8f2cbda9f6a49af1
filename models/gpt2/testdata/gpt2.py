"""Golden values from transformers' GPT2LMHeadModel: python gpt2.py writes gpt2.safetensors and gpt2.json beside it.

Initial weights from seed 42, forward and backward passes, runs of transformers.Trainer, and what generate writes."""

import json
import os
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import tempfile

import torch
import transformers
from causal import generator, parameters, rows
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(
    vocab_size=causal.VOCAB,
    n_positions=40,
    n_embd=32,
    n_layer=2,
    n_head=4,
    bos_token_id=causal.END,
    eos_token_id=causal.END,
)
out = {"cases": [], "runs": [], "texts": []}


def make(attention="sdpa", **settings):
    torch.manual_seed(42)
    return GPT2LMHeadModel._from_config(GPT2Config(**SIZES, **settings), attn_implementation=attention)


model = make()
out["generator"] = generator()
out["initial"] = parameters(model)
out["parameters"] = list(out["initial"])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    out["config"] = json.load(open(os.path.join(folder, "config.json")))
    out["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))
with tempfile.TemporaryDirectory() as folder:  # the decoder alone, which has all weights
    make().transformer.save_pretrained(folder)
    torch.manual_seed(5)
    out["fine"] = parameters(GPT2LMHeadModel.from_pretrained(folder))
    out["fine_generator"] = generator()


def case(name, attention="sdpa", dropout=0.1, **how):
    made = make(attention, embd_pdrop=dropout, attn_pdrop=dropout, resid_pdrop=dropout)
    out["cases"].append(dict(name=name, attention=attention, dropout=dropout, **causal.case(name, made, **how)))


for attention in ("sdpa", "eager"):
    case(attention, attention)
    case(attention + " without dropout", attention, dropout=0.0)
    case(attention + " without padding", attention, full=True)
    case(attention + " without padding and dropout", attention, full=True, dropout=0.0)
    case(attention + " checkpointing", attention, checkpointing=True)
    case(attention + " bf16", attention, bf16=True)


def run(name, samples, **settings):
    model = make()
    t, log = causal.run(model, samples, **settings)
    out["runs"].append(
        dict(
            name=name,
            accumulation=t.args.gradient_accumulation_steps,
            **log,
            eval_loss=t.evaluate()["eval_loss"].hex(),
            final=parameters(model),
            generator=generator(),
        )
    )
    return model


run("texts", rows, max_steps=20)
run("texts, windows of three", rows, max_steps=8, gradient_accumulation_steps=3)
everything = torch.cat(rows)
trained = run("blocks", list(everything[: len(everything) // 8 * 8].view(-1, 8)), max_steps=60)

trained.eval()
for settings in (
    dict(max_new_tokens=30),
    dict(),
    dict(max_new_tokens=30, repetition_penalty=1.7),
    dict(max_new_tokens=30, do_sample=True),
    dict(max_new_tokens=30, do_sample=True, temperature=0.7, top_k=10, top_p=0.9),
    dict(max_new_tokens=37, do_sample=True, top_k=0, top_p=0.8, repetition_penalty=1.2),
    dict(max_new_tokens=30, do_sample=True, temperature=1.3, top_k=0),
    dict(max_new_tokens=30, do_sample=True, top_k=61, eos_token_id=[44, 9]),
):
    out["texts"].append(dict(settings=settings, ids=causal.generate(trained, **settings), generator=generator()))
causal.write(str(here / "gpt2"), out)
