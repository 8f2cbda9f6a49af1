"""Golden values from transformers' WhisperForConditionalGeneration with SpecAugment: python whisper.py writes
whisper.safetensors and whisper.json beside it.

Passes with masks over frames, over bins and over both, and a run of transformers.Seq2SeqTrainer with an evaluation,
whose masks are those of numpy.
"""

import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import numpy as np
import torch
from causal import generator, ragged, sha, tensors
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperConfig, WhisperForConditionalGeneration

BINS, POSITIONS = 6, 8
COMMON = dict(
    vocab_size=causal.VOCAB,
    num_mel_bins=BINS,
    d_model=16,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    max_source_positions=POSITIONS,
    max_target_positions=24,
    pad_token_id=40,
    bos_token_id=40,
    eos_token_id=40,
    decoder_start_token_id=41,
    begin_suppress_tokens=None,
    dropout=0.1,
    apply_spec_augment=True,
)
MODELS = {
    "frames": dict(mask_time_prob=0.3, mask_time_length=3),
    "bins": dict(mask_time_prob=0.0, mask_feature_prob=0.4, mask_feature_length=2, mask_feature_min_masks=1),
    "both": dict(mask_time_prob=0.5, mask_time_length=4, mask_feature_prob=0.3, mask_feature_length=1),
}
out = dict(models=[])
targets = ragged(48, 2)
tensors.clear()
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})
tensors["features"] = torch.randn(48, BINS, 2 * POSITIONS, generator=torch.Generator().manual_seed(5))
samples = [dict(input_features=f, labels=t) for f, t in zip(tensors["features"], targets)]


def shas(model, of=lambda p: p):
    return {n: sha(of(p)) for n, p in model.named_parameters() if of(p) is not None}


def collate(samples):
    return dict(
        input_features=torch.stack([s["input_features"] for s in samples]),
        labels=torch.nn.utils.rnn.pad_sequence([s["labels"] for s in samples], batch_first=True, padding_value=-100),
    )


for label, settings in MODELS.items():

    def make():
        torch.manual_seed(42)
        return WhisperForConditionalGeneration(WhisperConfig(**(COMMON | settings)))

    model = make()
    entry = dict(name=label, cases=[])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
    for bf16 in False, True:
        name = label + ", bf16" * bf16
        model = make().train()
        torch.manual_seed(7)
        np.random.seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(**collate(samples[:4]))  # the masks are written into the features
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            tensors[name + ".eval"] = model(**collate(samples[:4])).logits
        tensors.update({name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach()})
        norms = {n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters() if p.grad is not None}
        grads = shas(model, lambda p: p.grad)
        entry["cases"].append(dict(name=name, bf16=bf16, generator=after, grads=grads, norms=norms))

    model = make()
    args = Seq2SeqTrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        max_steps=20,
    )
    trainer = Seq2SeqTrainer(
        model=model, args=args, train_dataset=samples, eval_dataset=samples[:4], data_collator=collate
    )
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry["run"] = dict(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=shas(model),
        eval_loss=trainer.evaluate()["eval_loss"].hex(),
    )
    out["models"].append(entry)

causal.write(str(here / "whisper"), out)
