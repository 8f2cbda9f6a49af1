"""Golden values from peft: python lora.py writes lora.safetensors, lora.json and the folder of an adapter beside it.

For each of some models with updates: initial weights from seed 42, a forward and backward pass, a run of
transformers.Trainer, what is saved, and the weights after merge_and_unload. The loss of the pass is the mean of the
squared logits. Needs peft 0.21.2.
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
import torch
import transformers
from causal import generator, mask, padded, rows, sha, tensors
from peft import LoraConfig, get_peft_model
from safetensors import safe_open

LLAMA = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=40,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    eos_token_id=causal.END,
)
GPT2 = dict(
    vocab_size=causal.VOCAB,
    n_positions=40,
    n_embd=32,
    n_layer=2,
    n_head=4,
    bos_token_id=causal.END,
    eos_token_id=causal.END,
)
BERT = dict(
    vocab_size=causal.VOCAB,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    num_labels=3,
)
MODELS = [  # name, class, configuration, settings of LoraConfig, checkpointing
    ("llama", "LlamaForCausalLM", LLAMA, dict(r=4, lora_alpha=8, task_type="CAUSAL_LM"), False),
    (
        "llama, all layers",
        "LlamaForCausalLM",
        LLAMA,
        dict(
            r=4,
            lora_alpha=6,
            lora_dropout=0.1,
            use_rslora=True,
            init_lora_weights="gaussian",
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
        False,
    ),
    (
        "llama, patterns",
        "LlamaForCausalLM",
        LLAMA,
        dict(
            r=4,
            target_modules=["q_proj", "k_proj", "up_proj"],
            exclude_modules=["layers.0.mlp.up_proj"],
            rank_pattern={"k_proj": 2},
            alpha_pattern={"layers.1.self_attn.q_proj": 3},
            modules_to_save=["norm"],
        ),
        True,
    ),
    (
        "llama, last layer",
        "LlamaForCausalLM",
        LLAMA,
        dict(r=2, target_modules=["q_proj", "o_proj"], layers_to_transform=[1], init_lora_weights=False),
        False,
    ),
    ("gpt2", "GPT2LMHeadModel", GPT2, dict(lora_dropout=0.1, bias="all", task_type="CAUSAL_LM"), True),
    ("gpt2, pattern", "GPT2LMHeadModel", GPT2, dict(r=3, target_modules=r".*\.(c_attn|c_fc)", bias="lora_only"), False),
    (
        "bert",
        "BertForSequenceClassification",
        BERT,
        dict(r=4, lora_dropout=0.2, bias="lora_only", task_type="SEQ_CLS"),
        False,
    ),
    (
        "llama, dora",
        "LlamaForCausalLM",
        LLAMA,
        dict(
            r=4,
            lora_alpha=8,
            use_dora=True,
            init_lora_weights=False,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
        True,
    ),
    (
        "gpt2, dora",
        "GPT2LMHeadModel",
        GPT2,
        dict(r=4, lora_dropout=0.1, use_dora=True, bias="lora_only", target_modules="all-linear"),
        False,
    ),
    ("bert, dora", "BertForSequenceClassification", BERT, dict(r=4, use_dora=True, task_type="SEQ_CLS"), False),
    (
        "bert, all layers",
        "BertForSequenceClassification",
        BERT,
        dict(r=4, target_modules="all-linear", task_type="SEQ_CLS"),
        True,
    ),
]
out = {"models": []}


def plain(name):
    """The name that a parameter has in the model itself"""
    for part in ("base_model.model.", ".default", ".base_layer", ".modules_to_save"):
        name = name.replace(part, "")
    return name


def own(model, of=lambda p: p):
    return {plain(n): sha(of(p)) for n, p in model.named_parameters() if "original_module" not in n}


for name, cls, config, settings, checkpointing in MODELS:

    def make():
        torch.manual_seed(42)
        base = getattr(transformers, cls)(getattr(transformers, cls).config_class(**config))
        return get_peft_model(base, LoraConfig(**settings))

    model = make()
    entry = dict(
        name=name,
        initial=own(model),
        generator=generator(),
        trained=[plain(n) for n, p in model.named_parameters() if p.requires_grad],
        checkpointing=checkpointing,
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "adapter_config.json")))
        with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as f:
            entry["saved"] = {k: sha(f.get_tensor(k)) for k in f.keys()}
    entry["config"]["target_modules"] = (
        sorted(settings["target_modules"])
        if isinstance(settings.get("target_modules"), list)
        else settings.get("target_modules")
    )
    entry["model"] = model.get_base_model().config.to_diff_dict()

    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    torch.manual_seed(7)
    logits = model(input_ids=padded, attention_mask=mask).logits
    loss = logits.float().square().mean()
    loss.backward()
    entry["after"] = generator()
    trained = {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    entry.update(
        grads={n: sha(p.grad) for n, p in trained.items()},
        norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in trained.items()},
    )
    model.eval()
    with torch.no_grad():
        tensors.update(
            {name + ".logits": logits.detach(), name + ".eval": model(input_ids=padded, attention_mask=mask).logits}
        )

    if cls != "BertForSequenceClassification":
        model = make()
        entry.update(causal.run(model, rows, max_steps=12, gradient_accumulation_steps=2)[1], final=own(model))
        model.eval()
        if name == "gpt2":
            model.save_pretrained(here / "adapter")
            os.remove(here / "adapter/README.md")
        with torch.no_grad():
            tensors[name + ".trained"] = model(input_ids=padded, attention_mask=mask).logits
            merged = model.merge_and_unload()
            entry["merged"] = {n: sha(p) for n, p in merged.named_parameters()}
            tensors[name + ".merged"] = merged(input_ids=padded, attention_mask=mask).logits
    out["models"].append(entry)

tensors["padded"], tensors["mask"] = padded, mask
causal.write(str(here / "lora"), out)
