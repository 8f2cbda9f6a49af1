"""Golden values from transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and GemmaForCausalLM: python
llama.py writes llama.safetensors and llama.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, a run of transformers.Trainer, and
what generate writes.
"""

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

SIZES = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=40,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    eos_token_id=causal.END,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=500.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
MODELS = {  # name: class, settings
    "llama": ("Llama", {}),
    "llama of groups": (
        "Llama",
        dict(num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=0, rope_parameters=LLAMA3),
    ),
    "llama with biases": (
        "Llama",
        dict(
            num_key_value_heads=1,
            attention_bias=True,
            mlp_bias=True,
            head_dim=6,
            attention_dropout=0.1,
            hidden_act="gelu",
            rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0),
        ),
    ),
    "mistral": ("Mistral", dict(num_key_value_heads=2, sliding_window=None, head_dim=10)),
    "qwen2": ("Qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "gemma": ("Gemma", dict(num_key_value_heads=1, head_dim=10)),
    "gemma with biases": (
        "Gemma",
        dict(num_key_value_heads=2, head_dim=8, attention_bias=True, attention_dropout=0.1, pad_token_id=None),
    ),
}
out = {"models": []}

for label, (prefix, settings) in MODELS.items():
    cls, make_config = getattr(transformers, prefix + "ForCausalLM"), getattr(transformers, prefix + "Config")

    def make(attention="sdpa"):
        torch.manual_seed(42)
        return cls._from_config(make_config(**SIZES, **settings), attn_implementation=attention)

    model = make()
    entry = dict(name=label, generator=generator(), initial=parameters(model), cases=[], texts=[])
    entry["parameters"] = list(entry["initial"])
    pad = model.config.pad_token_id
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))

    def case(name, attention, **how):
        name = f"{label}, {name}"
        entry["cases"].append(
            dict(
                name=name,
                attention=attention,
                **causal.case(name, make(attention), filler=causal.END if pad is None else pad, **how),
            )
        )

    for attention in ("sdpa", "eager") if len(out["models"]) < 2 else ("sdpa",):
        case(attention, attention)
        case(attention + " without padding", attention, full=True)
        case(attention + " checkpointing", attention, checkpointing=True)
        case(attention + " bf16", attention, bf16=True)

    model = make()
    entry.update(causal.run(model, rows, max_steps=12, gradient_accumulation_steps=2)[1], final=parameters(model))
    model.eval()
    for chosen in (
        dict(max_new_tokens=30),
        dict(max_new_tokens=30, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
        dict(max_new_tokens=20, num_beams=3),
    ):
        entry["texts"].append(causal.generate(model, **chosen))
    out["models"].append(entry)

causal.write(str(here / "llama"), out)
