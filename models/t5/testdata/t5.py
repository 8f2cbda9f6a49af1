"""Golden values from transformers' T5ForConditionalGeneration: python t5.py writes t5.safetensors and t5.json beside
it.

For each of some models: initial weights from seed 42, forward and backward passes, a run of
transformers.Seq2SeqTrainer, and what generate writes about several texts.
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
from causal import generator, mask, padded, parameters, ragged, rows, tensors, tok
from transformers import (
    DataCollatorForSeq2Seq,
    MT5Config,
    MT5ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)

ENDS = list(range(3, 61, 4))  # so many that texts end early
SIZES = dict(
    vocab_size=causal.VOCAB,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    eos_token_id=causal.END,
    decoder_start_token_id=0,
)
MODELS = {  # name: settings
    "t5": {},
    "t5 1.1": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_kv=6, num_decoder_layers=1),
    "t5 of few buckets": dict(
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        dropout_rate=0.0,
        num_heads=3,
        feed_forward_proj="gated-silu",
        initializer_factor=0.5,
    ),
    "mt5": dict(model_type="mt5"),
}
out = {"models": []}
targets = ragged(48, 2)
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})
labels = torch.nn.utils.rnn.pad_sequence(targets[:4], batch_first=True, padding_value=-100)

for label, settings in MODELS.items():

    def make(attention="sdpa"):
        torch.manual_seed(42)
        of_mt5 = settings.get("model_type") == "mt5"
        config = (MT5Config if of_mt5 else T5Config)(
            **(SIZES | {k: v for k, v in settings.items() if k != "model_type"})
        )
        return (MT5ForConditionalGeneration if of_mt5 else T5ForConditionalGeneration)._from_config(
            config, attn_implementation=attention
        )

    model = make()
    entry = dict(name=label, generator=generator(), initial=parameters(model), cases=[], texts=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
    entry["config"].update({k: v for k, v in settings.items() if k == "tie_word_embeddings"})

    def case(name, attention, full=False, bf16=False):
        name = f"{label}, {name}"
        model = make(attention).train()
        ids, given, wanted = (
            (
                padded[:, :5].clamp(min=1).contiguous(),
                torch.ones(4, 5, dtype=torch.int64),
                labels[:, :3].clamp(min=1).contiguous(),
            )
            if full
            else (padded, mask, labels)
        )
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(input_ids=ids, attention_mask=given, labels=wanted)
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(input_ids=ids, attention_mask=given, labels=wanted).logits
        tensors.update(
            {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
        )
        entry["cases"].append(
            dict(
                name=name,
                attention=attention,
                full=full,
                bf16=bf16,
                generator=after,
                grads=parameters(model, lambda p: p.grad),
                norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
            )
        )

    for attention in ("sdpa", "eager"):
        case(attention, attention)
        case(attention + " without padding", attention, full=True)
        case(attention + " bf16", attention, bf16=True)

    model = make()
    args = Seq2SeqTrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        max_steps=12,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=[dict(input_ids=r.tolist(), labels=t.tolist()) for r, t in zip(rows, targets)],
        data_collator=DataCollatorForSeq2Seq(tok, model=model),
    )
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=parameters(model),
    )
    model.eval()
    for chosen in (
        dict(max_new_tokens=12),
        dict(max_new_tokens=12, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
        dict(max_new_tokens=12, repetition_penalty=1.5),
        dict(max_new_tokens=12, num_beams=3),
        dict(max_new_tokens=9, num_beams=4, length_penalty=2.0, early_stopping=True, repetition_penalty=1.3),
        dict(max_new_tokens=12, num_beams=2, length_penalty=-1.0),
        dict(max_new_tokens=12, num_beams=3, eos_token_id=ENDS),
        dict(max_new_tokens=12, num_beams=4, length_penalty=3.0, early_stopping=True, eos_token_id=ENDS),
    ):
        torch.manual_seed(3)
        entry["texts"].append(model.generate(padded, attention_mask=mask, **chosen)[:, 1:].tolist())
    out["models"].append(entry)

causal.write(str(here / "t5"), out)
