"""Writes nodecay.json: for small models of transformers, each parameter's name, whether the Trainer decays it, and
whether a LayerNorm owns it.
"""

import json
import os

import torch
import transformers
from torch import nn
from transformers import Trainer

small = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=16)


class Odd(nn.Module):
    """Names at the edges of the patterns, and a LayerNorm that no pattern knows."""

    def __init__(self):
        super().__init__()
        for name in [
            "norm",
            "Norm1",
            "my_norm",
            "mynorm",
            "norm_my",
            "RMSNorm",
            "LayerNorm_1",
            "unbiased",
            "Bias",
            "ln_1",
            "normal",
        ]:
            child = nn.Module()
            child.weight = nn.Parameter(torch.zeros(1))
            self.add_module(name, child)
        self.ln_2 = nn.LayerNorm(2)
        self.norm_weight = nn.Parameter(torch.zeros(1))
        self.w_norm = nn.Parameter(torch.zeros(1))
        self.group = nn.GroupNorm(1, 2)


models = {
    "odd": Odd(),
    "bert": transformers.BertForSequenceClassification(transformers.BertConfig(**small)),
    "gpt2": transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=16, n_positions=8)
    ),
    "llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(**small)),
    "qwen3": transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**small, head_dim=4, num_key_value_heads=2)),
    "vit": transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=8, patch_size=4, **{k: v for k, v in small.items() if k != "vocab_size"})
    ),
}
out = {"transformers": transformers.__version__}
for name, model in models.items():
    decayed = set(Trainer.get_decay_parameter_names(None, model))
    owned = {
        f"{m}.{p}"
        for m, module in model.named_modules()
        if isinstance(module, nn.LayerNorm)
        for p, _ in module.named_parameters()
    }
    out[name] = [[n, n in decayed, n in owned] for n, _ in model.named_parameters()]
path = os.path.splitext(__file__)[0] + ".json"
with open(path, "w") as f:
    f.write(json.dumps(out, separators=(",", ":")).replace("],[", "],\n[").replace('],"', '],\n"') + "\n")
print(path, {k: len(v) for k, v in out.items()})
