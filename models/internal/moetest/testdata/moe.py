"""Golden values from transformers' MixtralForCausalLM, Qwen2MoeForCausalLM and Qwen3MoeForCausalLM: python moe.py
[file...] writes a safetensors and a json file of each of FILES beside it.

For each of some models: initial weights from seed 42, the names in files, forward and backward passes, runs of
transformers.Trainer and its evaluation, and what generate writes. The experts are those of grouped_mm, the default.
"""

import json
import os
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import tempfile

import torch
import transformers
from causal import generator, parameters, rows
from safetensors import safe_open

SIZES = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=40,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    num_experts_per_tok=2,
    eos_token_id=causal.END,
    pad_token_id=0,  # experts compute padding too, so its id makes a difference in last bits
    output_router_logits=True,
    router_aux_loss_coef=0.05,
)
QWEN = dict(num_experts=5, moe_intermediate_size=16)
PASSES = ("", " checkpointing", " bf16")
FILES = {  # file: model: class, settings, passes with fused attention, passes with eager attention
    "mixtral": {
        "mixtral": (
            "Mixtral",
            dict(num_local_experts=4),
            (*PASSES, " without padding", " bfloat16"),
            ("",),
        ),
        "mixtral with noise": (
            "Mixtral",
            dict(
                num_local_experts=8,
                num_experts_per_tok=3,
                router_jitter_noise=0.1,
                sliding_window=4,
                head_dim=6,
                attention_dropout=0.1,
                tie_word_embeddings=True,
                output_router_logits=False,
            ),
            PASSES,
            (),
        ),
    },
    "qwen": {
        "qwen2_moe": (
            "Qwen2Moe",
            dict(
                **QWEN,
                shared_expert_intermediate_size=24,
                use_sliding_window=True,
                sliding_window=4,
                max_window_layers=1,
            ),
            (*PASSES, " bfloat16"),
            (),
        ),
        "qwen2_moe without biases": (
            "Qwen2Moe",
            dict(
                **QWEN,
                shared_expert_intermediate_size=20,
                norm_topk_prob=True,
                qkv_bias=False,
                decoder_sparse_step=2,
                output_router_logits=False,
            ),
            ("",),
            (),
        ),
        "qwen3_moe": (
            "Qwen3Moe",
            dict(**QWEN, norm_topk_prob=True, mlp_only_layers=[1], head_dim=10),
            (*PASSES, " bfloat16"),
            (),
        ),
        "qwen3_moe with windows": (
            "Qwen3Moe",
            dict(
                **QWEN,
                head_dim=6,
                attention_bias=True,
                use_sliding_window=True,
                sliding_window=4,
                attention_dropout=0.1,
                tie_word_embeddings=True,
            ),
            ("",),
            ("",),
        ),
    },
}
HOW = {
    "": {},
    " without padding": dict(full=True),
    " checkpointing": dict(checkpointing=True),
    " bf16": dict(bf16=True),
    " bfloat16": {},
}


def golden(label, prefix, settings, fused, eager):
    cls, make_config = getattr(transformers, prefix + "ForCausalLM"), getattr(transformers, prefix + "Config")

    def make(attention="sdpa", **more):
        torch.manual_seed(42)
        return cls._from_config(make_config(**SIZES | settings), attn_implementation=attention, **more)

    model = make()
    assert model.config._experts_implementation == "grouped_mm"
    entry = dict(name=label, generator=generator(), initial=parameters(model), cases=[], runs=[], texts=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
            entry["files"] = {name: causal.sha(f.get_tensor(name)) for name in f.keys()}

    for attention, passes in (("sdpa", fused), ("eager", eager)):
        for what in passes:
            half = what == " bfloat16"
            name = f"{label}, {attention}{what}"
            made = make(attention, **(dict(dtype=torch.bfloat16) if half else {}))
            case = causal.case(name, made, **HOW[what])
            entry["cases"].append(dict(name=name, attention=attention, half=half, **case))

    for accumulate in (1, 2):
        model = make()
        # transformers adds up the load-balancing losses of a window; gotrainer averages them
        model.router_aux_loss_coef /= accumulate
        t, run = causal.run(model, rows, max_steps=8, gradient_accumulation_steps=accumulate)
        model.router_aux_loss_coef *= accumulate
        evaluated = t.evaluate()["eval_loss"].hex()
        entry["runs"].append(dict(**run, accumulate=accumulate, eval=evaluated, final=parameters(model)))
    model.eval()
    model.config.output_router_logits = False  # with it, generate of transformers 5.17 fails where texts have a past
    for chosen in (
        dict(max_new_tokens=20),
        dict(max_new_tokens=20, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
        dict(max_new_tokens=12, num_beams=3),
    ):
        entry["texts"].append(causal.generate(model, **chosen))
    return entry


whole = causal.sha
causal.sha = lambda t: whole(t.detach().contiguous().view(-1).view(torch.uint8))  # also of numbers in 16 bits
texts = dict(causal.tensors)
for file in sys.argv[1:] or FILES:
    causal.tensors.clear()
    causal.tensors.update(texts)
    causal.write(str(here / file), {"models": [golden(label, *model) for label, model in FILES[file].items()]})
