"""Golden values from transformers' GPT2LMHeadModel: python gpt2.py writes gpt2.safetensors and gpt2.json beside it.

Initial weights from seed 42, forward and backward passes, runs of transformers.Trainer, and what generate writes. Weights and gradients are stored by the first 16 digits of their sha256."""
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
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer, TrainingArguments

torch.set_num_threads(1)
VOCAB = 61
SIZES = dict(vocab_size=VOCAB, n_positions=40, n_embd=32, n_layer=2, n_head=4, bos_token_id=60, eos_token_id=60)
tensors, out = {}, {"cases": [], "runs": [], "texts": []}


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def make(attention="sdpa", **settings):
    torch.manual_seed(42)
    return GPT2LMHeadModel._from_config(GPT2Config(**SIZES, **settings), attn_implementation=attention)


def ragged(n, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 60, (int(torch.randint(2, 15, (), generator=g)),), generator=g) for _ in range(n)]


def parameters(model, of):
    return {n: sha(of(p)) for n, p in model.named_parameters()}


model = make()
out["generator"] = sha(torch.get_rng_state())
out["initial"] = parameters(model, lambda p: p)
out["parameters"] = list(out["initial"])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    out["config"] = json.load(open(os.path.join(folder, "config.json")))
    out["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))
with tempfile.TemporaryDirectory() as folder:  # the decoder alone, which has all weights
    make().transformer.save_pretrained(folder)
    torch.manual_seed(5)
    out["fine"] = parameters(GPT2LMHeadModel.from_pretrained(folder), lambda p: p)
    out["fine_generator"] = sha(torch.get_rng_state())

rows = ragged(48, 1)
for i, row in enumerate(rows):
    tensors[f"row.{i}"] = row
padded = torch.nn.utils.rnn.pad_sequence(rows[:4], batch_first=True)
mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(r) for r in rows[:4]], batch_first=True)


def case(name, attention="sdpa", full=False, dropout=0.1, bf16=False, checkpointing=False):
    model = make(attention, embd_pdrop=dropout, attn_pdrop=dropout, resid_pdrop=dropout)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    ids, labels, given = padded, padded.masked_fill(mask == 0, -100), mask
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
    tensors.update({name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated})
    out["cases"].append(dict(name=name, attention=attention, full=full, dropout=dropout, bf16=bf16, checkpointing=checkpointing, generator=after, grads=parameters(model, lambda p: p.grad),
                             norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()}))


for attention in ("sdpa", "eager"):
    case(attention, attention)
    case(attention + " without dropout", attention, dropout=0.0)
    case(attention + " without padding", attention, full=True)
    case(attention + " without padding and dropout", attention, full=True, dropout=0.0)
    case(attention + " checkpointing", attention, checkpointing=True)
    case(attention + " bf16", attention, bf16=True)

vocab = {f"w{i}": i for i in range(VOCAB)}
tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="w1")), pad_token="w0", eos_token="w60")


def run(name, samples, **settings):
    model = make()
    args = TrainingArguments(output_dir="/tmp/unused", report_to=[], use_cpu=True, per_device_train_batch_size=4, learning_rate=1e-3, logging_steps=1, save_strategy="no", disable_tqdm=True, **settings)
    t = Trainer(model=model, args=args, train_dataset=[dict(input_ids=s.tolist()) for s in samples], eval_dataset=[dict(input_ids=s.tolist()) for s in rows[:6]],
                data_collator=DataCollatorForLanguageModeling(tok, mlm=False))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    out["runs"].append(dict(name=name, accumulation=args.gradient_accumulation_steps, losses=[r["loss"].hex() for r in log], grad_norms=[float(r["grad_norm"]).hex() for r in log],
                            eval_loss=t.evaluate()["eval_loss"].hex(), final=parameters(model, lambda p: p), generator=sha(torch.get_rng_state())))
    return model


run("texts", rows, max_steps=20)
run("texts, windows of three", rows, max_steps=8, gradient_accumulation_steps=3)
everything = torch.cat(rows)
trained = run("blocks", list(everything[:len(everything) // 8 * 8].view(-1, 8)), max_steps=60)

trained.eval()
prompt = torch.tensor([[3, 14, 15]])
for settings in (dict(max_new_tokens=30), dict(), dict(max_new_tokens=30, repetition_penalty=1.7), dict(max_new_tokens=30, do_sample=True),
                 dict(max_new_tokens=30, do_sample=True, temperature=0.7, top_k=10, top_p=0.9), dict(max_new_tokens=37, do_sample=True, top_k=0, top_p=0.8, repetition_penalty=1.2),
                 dict(max_new_tokens=30, do_sample=True, temperature=1.3, top_k=0), dict(max_new_tokens=30, do_sample=True, top_k=61, eos_token_id=[44, 9])):
    torch.manual_seed(3)
    ids = trained.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **settings)
    out["texts"].append(dict(settings=settings, ids=ids[0, 3:].tolist(), generator=sha(torch.get_rng_state())))

save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "gpt2.safetensors"), metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"})
with open(here / "gpt2.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
