"""Golden values from transformers' decoders beside llama.py's, those with sliding windows among them: python
families.py [file...] writes a safetensors and a json file of each of FILES beside it.

For each of some models: initial weights from seed 42, forward and backward passes, a run of transformers.Trainer, and
what generate writes. Texts have 2 to 14 tokens, and most windows less.
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
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    eos_token_id=causal.END,
)
FULL, SLIDING = "full_attention", "sliding_attention"
BOTH, SDPA, EAGER = ("sdpa", "eager"), ("sdpa",), ("eager",)
FILES = {  # file: model: class, settings, ways of attention
    "windows": {
        "mistral": ("Mistral", dict(num_key_value_heads=2, sliding_window=4), BOTH),
        "qwen2": (
            "Qwen2",
            dict(
                num_key_value_heads=1,
                use_sliding_window=True,
                sliding_window=5,
                max_window_layers=1,
                attention_dropout=0.1,
            ),
            SDPA,
        ),
    },
    "qwen3": {
        "qwen3": ("Qwen3", dict(num_key_value_heads=2, head_dim=10), BOTH),
        "qwen3 with windows": (
            "Qwen3",
            dict(
                num_key_value_heads=2,
                head_dim=6,
                tie_word_embeddings=True,
                attention_bias=True,
                attention_dropout=0.1,
                use_sliding_window=True,
                sliding_window=4,
                layer_types=[SLIDING, FULL, SLIDING],
            ),
            SDPA,
        ),
    },
    "phi3": {
        "phi3": (
            "Phi3",
            dict(
                num_key_value_heads=2,
                resid_pdrop=0.1,
                sliding_window=4,
                pad_token_id=0,
                rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.75),
            ),
            BOTH,
        ),
        "phi3 with longrope": (
            "Phi3",
            dict(
                attention_dropout=0.1,
                pad_token_id=None,
                original_max_position_embeddings=12,
                tie_word_embeddings=True,
                rope_parameters=dict(
                    rope_type="longrope", short_factor=[1.0, 1.1, 1.25, 1.5], long_factor=[1.0, 2.0, 3.5, 8.0]
                ),
            ),
            SDPA,
        ),
    },
    "gemma2": {
        "gemma2": (
            "Gemma2",
            dict(
                num_key_value_heads=2,
                head_dim=10,
                sliding_window=4,
                query_pre_attn_scalar=12,
                attn_logit_softcapping=0.05,
                final_logit_softcapping=0.5,
            ),
            BOTH[::-1],
        ),
        "gemma2 without caps": (
            "Gemma2",
            dict(
                num_key_value_heads=1,
                head_dim=8,
                sliding_window=5,
                layer_types=[FULL, SLIDING, SLIDING],
                attention_bias=True,
                attention_dropout=0.1,
                pad_token_id=None,
                attn_logit_softcapping=None,
                final_logit_softcapping=None,
            ),
            SDPA,
        ),
    },
    "gemma3": {
        "gemma3": (
            "Gemma3",
            dict(
                num_key_value_heads=2,
                head_dim=10,
                sliding_window=4,
                query_pre_attn_scalar=12,
                layer_types=[SLIDING, FULL, SLIDING],
                rope_parameters={
                    FULL: dict(rope_type="linear", rope_theta=5000.0, factor=8.0),
                    SLIDING: dict(rope_type="default", rope_theta=100.0),
                },
            ),
            BOTH,
        ),
        "gemma3 with a cap": (
            "Gemma3",
            dict(
                num_key_value_heads=1,
                head_dim=8,
                sliding_window=5,
                attention_bias=True,
                attention_dropout=0.1,
                pad_token_id=None,
                final_logit_softcapping=0.5,
            ),
            SDPA,
        ),
    },
    "smollm3": {
        "smollm3": (
            "SmolLM3",
            dict(
                num_key_value_heads=2,
                pad_token_id=0,
                attention_dropout=0.1,
                attention_bias=True,
                mlp_bias=True,
                no_rope_layers=[0, 1, 0],
            ),
            BOTH,
        ),
    },
    "olmo2": {
        "olmo2": ("Olmo2", dict(num_key_value_heads=2, attention_dropout=0.1, attention_bias=True), BOTH),
    },
    "granite": {
        "granite": (
            "Granite",
            dict(
                num_key_value_heads=2,
                tie_word_embeddings=True,
                embedding_multiplier=3.0,
                attention_multiplier=0.2,
                residual_multiplier=0.6,
                logits_scaling=2.5,
            ),
            BOTH,
        ),
    },
}


def golden(label, prefix, settings, ways):
    """What is recorded of a model."""
    cls, make_config = (
        getattr(transformers, prefix + "ForCausalLM"),
        getattr(transformers, prefix + ("TextConfig" if prefix == "Gemma3" else "Config")),
    )

    def make(attention=ways[0]):
        torch.manual_seed(42)
        return cls._from_config(make_config(**SIZES | settings), attn_implementation=attention)

    model = make()
    entry = dict(name=label, attention=ways[0], generator=generator(), initial=parameters(model), cases=[], texts=[])
    entry["parameters"] = list(entry["initial"])
    pad = model.config.pad_token_id
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))

    for attention in ways:
        for what, how in {
            "": {},
            " without padding": dict(full=True),
            " checkpointing": dict(checkpointing=True),
            " bf16": dict(bf16=True),
        }.items():
            name = f"{label}, {attention}{what}"
            entry["cases"].append(
                dict(
                    name=name,
                    attention=attention,
                    **causal.case(name, make(attention), filler=causal.END if pad is None else pad, **how),
                )
            )

    model = make()
    entry.update(causal.run(model, rows, max_steps=12, gradient_accumulation_steps=2)[1], final=parameters(model))
    model.eval()
    # transformers 5.17 forgets the past of longrope where a text becomes a long one, and each token sees itself alone
    # from there on
    cached = {} if model.config.rope_parameters.get("rope_type") != "longrope" else dict(use_cache=False)
    for chosen in (
        dict(max_new_tokens=30),
        dict(max_new_tokens=30, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
        dict(max_new_tokens=20, num_beams=3),
    ):
        entry["texts"].append(causal.generate(model, **chosen, **cached))
    return entry


texts = dict(causal.tensors)
for file in sys.argv[1:] or FILES:
    causal.tensors.clear()
    causal.tensors.update(texts)
    causal.write(str(here / file), {"models": [golden(label, *model) for label, model in FILES[file].items()]})
