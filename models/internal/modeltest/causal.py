"""What the golden files of language models share, for the scripts in the testdata of packages gpt2 and llama: texts,
hashes, a forward and backward pass, and Trainer.

Needs transformers 5.17.0 and torch 2.11.0. Weights and gradients are stored by the first 16 digits of their sha256.
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import transformers
from goldenfile import save_file
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast, Trainer, TrainingArguments

torch.set_num_threads(1)
VOCAB, END = 61, 60


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def generator():
    return sha(torch.get_rng_state())


def parameters(model, of=lambda p: p):
    return {n: sha(of(p)) for n, p in model.named_parameters()}


def ragged(n, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 60, (int(torch.randint(2, 15, (), generator=g)),), generator=g) for _ in range(n)]


rows = ragged(48, 1)
tensors = {f"row.{i}": row for i, row in enumerate(rows)}
pad = lambda ts: torch.nn.utils.rnn.pad_sequence(ts, batch_first=True)
padded, mask = pad(rows[:4]), pad([torch.ones_like(r) for r in rows[:4]])
tok = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w1")),
    pad_token="w0",
    eos_token=f"w{END}",
)
prompt = torch.tensor([[3, 14, 15]])


def case(name, model, filler=0, full=False, bf16=False, checkpointing=False):
    """A forward and backward pass of a model that was just made, in training mode, and a forward pass in evaluation
    mode; full: no text is padded
    """
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    ids, labels, given = padded.masked_fill(mask == 0, filler), padded.masked_fill(mask == 0, -100), mask
    if full:
        ids = labels = padded[:, :5].clamp(min=1).contiguous()
        given = torch.ones_like(ids)
    torch.manual_seed(7)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        result = model(input_ids=ids, attention_mask=given, labels=labels)
    result.loss.backward()
    after = generator()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        evaluated = model(input_ids=ids, attention_mask=given).logits
    tensors.update(
        {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
    )
    return dict(
        full=full,
        bf16=bf16,
        checkpointing=checkpointing,
        generator=after,
        grads=parameters(model, lambda p: p.grad),
        norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
    )


def run(model, samples, **settings):
    """A run of Trainer: the trainer, its losses and gradient norms"""
    args = TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    t = Trainer(
        model=model,
        args=args,
        train_dataset=[dict(input_ids=s.tolist()) for s in samples],
        eval_dataset=[dict(input_ids=s.tolist()) for s in rows[:6]],
        data_collator=DataCollatorForLanguageModeling(tok, mlm=False),
    )
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    return t, dict(losses=[r["loss"].hex() for r in log], grad_norms=[float(r["grad_norm"]).hex() for r in log])


def write(path, out):
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        path + ".safetensors",
        metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"},
    )
    with open(path + ".json", "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


def generate(model, **settings):
    torch.manual_seed(3)
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **settings)[0, 3:].tolist()
