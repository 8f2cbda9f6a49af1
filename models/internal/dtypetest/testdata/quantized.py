"""Golden values from transformers' models with weights of four bits: python quantized.py writes quantized.safetensors,
quantized.json and the folder packed beside it.

For each of some models: weights from seed 42, saved and loaded with a BitsAndBytesConfig, and updates of peft on top; a
forward and backward pass of which the loss is the mean of the squared logits, a run of transformers.Trainer, and the
weights after merge_and_unload. Widths are whole blocks: bitsandbytes' kernel for CPUs takes the sizes of other blocks
elsewhere. Needs peft 0.21.2 and bitsandbytes 0.50.2.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import bitsandbytes as bnb
import torch
import transformers
from causal import generator, mask, padded, rows, sha
from peft import LoraConfig, get_peft_model
from transformers import BitsAndBytesConfig

LLAMA = dict(
    vocab_size=causal.VOCAB,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_size=64,
    intermediate_size=128,
    max_position_embeddings=40,
    eos_token_id=causal.END,
)
GPT2 = dict(
    vocab_size=causal.VOCAB,
    n_positions=40,
    n_embd=64,
    n_layer=2,
    n_head=4,
    bos_token_id=causal.END,
    eos_token_id=causal.END,
)
BERT = dict(
    vocab_size=causal.VOCAB,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    num_labels=3,
)
T5 = dict(
    vocab_size=causal.VOCAB,
    d_model=64,
    d_kv=16,
    d_ff=128,
    num_layers=2,
    num_heads=4,
    eos_token_id=causal.END,
    decoder_start_token_id=0,
)
NF4 = dict(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)
ALL = dict(r=4, lora_alpha=8, lora_dropout=0.1, target_modules="all-linear", task_type="CAUSAL_LM")
MODELS = [  # name, class, configuration, dtype, BitsAndBytesConfig, LoraConfig
    ("llama nf4", "LlamaForCausalLM", LLAMA, "bfloat16", NF4, ALL),
    ("llama fp4", "LlamaForCausalLM", LLAMA, "float32", {}, dict(r=4, lora_alpha=8, task_type="CAUSAL_LM")),
    (
        "llama skipped",
        "LlamaForCausalLM",
        dict(LLAMA, attention_bias=True),
        "bfloat16",
        dict(bnb_4bit_quant_type="nf4", llm_int8_skip_modules=["lm_head", "down_proj"]),
        ALL,
    ),
    ("gpt2 nf4", "GPT2LMHeadModel", GPT2, "bfloat16", NF4, dict(r=4, lora_alpha=8, task_type="CAUSAL_LM")),
    (
        "bert nf4",
        "BertForSequenceClassification",
        BERT,
        "float32",
        dict(NF4, llm_int8_skip_modules=["classifier"]),
        dict(r=4, lora_alpha=8, task_type="SEQ_CLS"),
    ),
    ("t5 nf4", "T5ForConditionalGeneration", T5, "bfloat16", NF4, dict(r=4, lora_alpha=8, task_type="SEQ_2_SEQ_LM")),
    (
        "llama dora",
        "LlamaForCausalLM",
        LLAMA,
        "bfloat16",
        NF4,
        dict(r=4, lora_alpha=8, use_dora=True, task_type="CAUSAL_LM"),
    ),
]
tensors, out = {}, {"models": []}


def plain(name):
    """The name that a parameter has in the model itself"""
    for part in ("base_model.model.", ".default", ".base_layer", ".modules_to_save"):
        name = name.replace(part, "")
    return name


def own(model, of=lambda p: p):
    return {
        plain(n): sha(of(p).detach().contiguous().view(-1).view(torch.uint8))
        for n, p in model.named_parameters()
        if "original_module" not in n and of(p) is not None
    }


for name, cls, config, dtype, bits, lora in MODELS:
    kind = getattr(transformers, cls)
    folder = tempfile.mkdtemp()
    torch.manual_seed(42)
    kind(kind.config_class(**config)).save_pretrained(folder)

    def make():
        model = kind.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            quantization_config=BitsAndBytesConfig(load_in_4bit=True, **bits),
            device_map="cpu",
        )
        for m in model.modules():
            if isinstance(m, bnb.nn.Linear4bit):
                m.support_avx512bf16_for_cpu = False  # another layout of the bits, for texts that are written
        return model

    model = make()
    entry = dict(
        name=name,
        dtype=dtype,
        config=json.load(open(os.path.join(folder, "config.json"))),
        quantization=model.config.quantization_config.to_dict(),
        initial=own(model),
    )
    entry["state"] = {
        n: sha(t.detach().contiguous().view(-1).view(torch.uint8))
        for n, t in model.state_dict().items()
        if "quant_state" not in n
    }
    if name == "llama nf4":
        shutil.rmtree(here / "packed", ignore_errors=True)
        model.save_pretrained(here / "packed")

    def adapted():
        model = make()
        torch.manual_seed(43)
        return get_peft_model(model, LoraConfig(**lora))

    model = adapted()
    entry["updated"] = own(model)
    given = dict(input_ids=padded, attention_mask=mask)
    if cls.startswith("T5"):
        given["decoder_input_ids"] = padded[:, :3].contiguous()
    model.train()
    torch.manual_seed(7)
    logits = model(**given).logits
    logits.float().square().mean().backward()
    entry["after"] = generator()
    entry["grads"] = own(model, lambda p: p.grad)
    entry["norms"] = {
        plain(n): float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters() if p.grad is not None
    }
    model.eval()
    with torch.no_grad():
        tensors.update({name + ".logits": logits.detach(), name + ".eval": model(**given).logits})
    if "CausalLM" in cls or "LMHead" in cls:
        model = adapted()
        entry.update(causal.run(model, rows, max_steps=10)[1], final=own(model))
        entry["merged"] = {
            n: sha(t.detach().contiguous().view(-1).view(torch.uint8))
            for n, t in model.merge_and_unload().state_dict().items()
            if "quant_state" not in n
        }
    out["models"].append(entry)
    shutil.rmtree(folder)

tensors["padded"], tensors["mask"] = padded, mask
tensors.update({f"row.{i}": row for i, row in enumerate(rows)})
causal.tensors.clear()
causal.tensors.update(tensors)
causal.write(str(here / "quantized"), out)
