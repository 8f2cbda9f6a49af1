"""Golden values from transformers' LlamaForCausalLM, MistralForCausalLM and Qwen2ForCausalLM: python llama.py writes llama.safetensors and llama.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, a run of transformers.Trainer, and what generate writes. Weights and gradients are stored by the first 16
digits of their sha256."""
import hashlib
import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import os
import tempfile

import torch
import transformers
from goldenfile import save_file
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast, Trainer, TrainingArguments

torch.set_num_threads(1)
VOCAB = 61
SIZES = dict(vocab_size=VOCAB, max_position_embeddings=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, eos_token_id=60)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
MODELS = {  # name: class, settings
    "llama": ("Llama", {}),
    "llama of groups": ("Llama", dict(num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=0, rope_parameters=LLAMA3)),
    "llama with biases": ("Llama", dict(num_key_value_heads=1, attention_bias=True, mlp_bias=True, head_dim=6, attention_dropout=0.1, hidden_act="gelu", rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0))),
    "mistral": ("Mistral", dict(num_key_value_heads=2, sliding_window=None, head_dim=10)),
    "qwen2": ("Qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
}
tensors, out = {}, {"models": []}


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def ragged(n, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 60, (int(torch.randint(2, 15, (), generator=g)),), generator=g) for _ in range(n)]


def parameters(model, of):
    return {n: sha(of(p)) for n, p in model.named_parameters()}


rows = ragged(48, 1)
for i, row in enumerate(rows):
    tensors[f"row.{i}"] = row
padded = torch.nn.utils.rnn.pad_sequence(rows[:4], batch_first=True)
mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(r) for r in rows[:4]], batch_first=True)
vocab = {f"w{i}": i for i in range(VOCAB)}
tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="w1")), pad_token="w0", eos_token="w60")
prompt = torch.tensor([[3, 14, 15]])

for label, (prefix, settings) in MODELS.items():
    cls, make_config = getattr(transformers, prefix + "ForCausalLM"), getattr(transformers, prefix + "Config")

    def make(attention="sdpa"):
        torch.manual_seed(42)
        return cls._from_config(make_config(**SIZES, **settings), attn_implementation=attention)

    model = make()
    entry = dict(name=label, generator=sha(torch.get_rng_state()), initial=parameters(model, lambda p: p), cases=[], texts=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))

    def case(name, attention="sdpa", full=False, bf16=False, checkpointing=False):
        model = make(attention)
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        filled = padded.masked_fill(mask == 0, settings.get("pad_token_id", 60))
        ids, labels, given = filled, padded.masked_fill(mask == 0, -100), mask
        if full:
            ids = labels = padded[:, :5].clamp(min=1).contiguous()
            given = torch.ones_like(ids)
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(input_ids=ids, attention_mask=given, labels=labels)
        result.loss.backward()
        after = sha(torch.get_rng_state())
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(input_ids=ids, attention_mask=given).logits
        key = f"{label}, {name}"
        tensors.update({key + ".logits": result.logits.detach(), key + ".loss": result.loss.detach(), key + ".eval": evaluated})
        entry["cases"].append(dict(name=key, attention=attention, full=full, bf16=bf16, checkpointing=checkpointing, generator=after, grads=parameters(model, lambda p: p.grad),
                                   norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()}))

    for attention in ("sdpa", "eager") if len(out["models"]) < 2 else ("sdpa",):
        case(attention, attention)
        case(attention + " without padding", attention, full=True)
        case(attention + " checkpointing", attention, checkpointing=True)
        case(attention + " bf16", attention, bf16=True)

    model = make()
    args = TrainingArguments(output_dir="/tmp/unused", report_to=[], use_cpu=True, per_device_train_batch_size=4, learning_rate=1e-3, logging_steps=1, save_strategy="no", disable_tqdm=True,
                             max_steps=12, gradient_accumulation_steps=2)
    t = Trainer(model=model, args=args, train_dataset=[dict(input_ids=s.tolist()) for s in rows], data_collator=DataCollatorForLanguageModeling(tok, mlm=False))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    entry.update(losses=[r["loss"].hex() for r in log], grad_norms=[float(r["grad_norm"]).hex() for r in log], final=parameters(model, lambda p: p))
    model.eval()
    for chosen in (dict(max_new_tokens=30), dict(max_new_tokens=30, do_sample=True, temperature=0.7, top_k=20, top_p=0.9)):
        torch.manual_seed(3)
        ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **chosen)
        entry["texts"].append(ids[0, 3:].tolist())
    out["models"].append(entry)

save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "llama.safetensors"), metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"})
with open(here / "llama.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
