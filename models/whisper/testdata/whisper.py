"""Golden values from transformers' WhisperForConditionalGeneration: python whisper.py writes whisper.safetensors and
whisper.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, a run
of transformers.Seq2SeqTrainer with an evaluation, and what generate writes about some speech, with settings and with
several generation_config.json.
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
import peft
import torch
from causal import generator, ragged, sha, tensors
from safetensors.torch import load_file
from transformers import (
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from transformers.models.whisper.modeling_whisper import sinusoids

END, START = 40, 41  # then three languages and two tasks
BINS, POSITIONS = 6, 8
COMMON = dict(
    vocab_size=causal.VOCAB,
    num_mel_bins=BINS,
    d_model=16,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=4,
    encoder_ffn_dim=24,
    decoder_ffn_dim=32,
    max_source_positions=POSITIONS,
    max_target_positions=24,
    pad_token_id=END,
    bos_token_id=END,
    eos_token_id=END,
    decoder_start_token_id=START,
    begin_suppress_tokens=[20, END],
)
MODELS = {
    "whisper": dict(dropout=0.1),
    "whisper with layerdrop": dict(
        d_model=24,
        attention_dropout=0.2,
        activation_dropout=0.1,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.1,
        activation_function="relu",
        init_std=0.05,
        pad_token_id=0,
    ),
}
SPEECH = dict(
    lang_to_id={"<|en|>": 42, "<|de|>": 43, "<|fr|>": 44},
    task_to_id={"translate": 45, "transcribe": 46},
    is_multilingual=True,
    no_timestamps_token_id=60,
    suppress_tokens=[1, 2, 7, 41],
    begin_suppress_tokens=[20, END],
    max_length=24,
    return_timestamps=False,
    prev_sot_token_id=39,
    decoder_start_token_id=START,
    pad_token_id=END,
    bos_token_id=END,
    eos_token_id=END,
)
FORCED = dict(SPEECH, forced_decoder_ids=[[1, None], [2, 46]])
FILES = [  # generation_config.json and settings of generate
    (FORCED, {}),
    (FORCED, dict(language="german")),
    (FORCED, dict(language="<|fr|>", task="translate", max_new_tokens=7)),
    (FORCED, dict(task="translate")),
    (FORCED, dict(num_beams=3, max_new_tokens=9)),
    (FORCED, dict(num_beams=3, language="en", length_penalty=2.0)),
    (FORCED, dict(temperature=0.7, top_k=20, top_p=0.9, language="EN")),
    (FORCED, dict(language="en", no_repeat_ngram_size=2, repetition_penalty=1.5, min_new_tokens=12)),
    (dict(SPEECH, language="de", task="transcribe", do_sample=True), {}),
    (dict(SPEECH, forced_decoder_ids=[[1, 43], [2, 45], [3, 60]], max_length=9), {}),
    (dict(SPEECH, is_multilingual=False, lang_to_id=None, task_to_id=None, suppress_tokens=[]), {}),
    (dict(decoder_start_token_id=START, pad_token_id=END, eos_token_id=END, begin_suppress_tokens=None), {}),
]
TIMES = dict(FORCED, no_timestamps_token_id=49, max_initial_timestamp_index=3)
SEGMENTS = [  # whether the speech is long, generation_config.json and settings of generate
    (False, TIMES, {}),
    (False, TIMES, dict(language="de", num_beams=2)),
    (True, TIMES, {}),
    (True, TIMES, dict(task="translate")),
    (True, TIMES, dict(num_beams=3, language="en")),
    (True, TIMES, dict(temperature=1.0, language="en")),
    (True, dict(TIMES, max_initial_timestamp_index=None, suppress_tokens=list(range(0, 40, 2))), dict(language="fr")),
]
out = {"models": []}
targets = ragged(48, 2)
tensors.clear()
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})
tensors["features"] = torch.randn(48, BINS, 2 * POSITIONS, generator=torch.Generator().manual_seed(5))
tensors["long"] = torch.randn(1, BINS, 50, generator=torch.Generator().manual_seed(6))
samples = [dict(input_features=f, labels=t) for f, t in zip(tensors["features"], targets)]


def shas(model, of=lambda p: p):
    as_bytes = lambda t: t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    return {n: sha(as_bytes(of(p))) for n, p in model.named_parameters() if of(p) is not None}


def norms(model):
    return {n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters() if p.grad is not None}


def collate(samples):
    return dict(
        input_features=torch.stack([s["input_features"] for s in samples]),
        labels=torch.nn.utils.rnn.pad_sequence([s["labels"] for s in samples], batch_first=True, padding_value=-100),
    )


batch = collate(samples[:4])
for label, settings in MODELS.items():

    def make(attention=None, dtype=torch.float32):
        torch.manual_seed(42)
        model = WhisperForConditionalGeneration._from_config(
            WhisperConfig(**(COMMON | settings)), attn_implementation=attention, dtype=dtype
        )
        positions = model.model.encoder.embed_positions.weight  # which transformers computes in 16 bits, too
        positions.data.copy_(sinusoids(*positions.shape))
        return model

    model = make()
    entry = dict(name=label, generator=generator(), initial=shas(model), cases=[], files=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
        entry["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

    def case(name, attention=None, full=False, bf16=False, half=False, checkpointing=False):
        name = f"{label}, {name}"
        model = make(attention, torch.bfloat16 if half else torch.float32).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        given = dict(batch, labels=batch["labels"][:, :3].clamp(min=1).contiguous()) if full else dict(batch)
        given["input_features"] = given["input_features"].to(model.dtype)
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(**given)
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(**given).logits
        tensors.update(
            {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
        )
        entry["cases"].append(
            dict(
                name=name,
                attention=attention or "sdpa",
                full=full,
                bf16=bf16,
                half=half,
                checkpointing=checkpointing,
                generator=after,
                grads=shas(model, lambda p: p.grad),
                norms=norms(model),
            )
        )

    case("sdpa")
    case("eager", "eager")
    case("bf16", bf16=True)
    if label == "whisper":
        case("without padding", full=True)
        case("eager bf16", "eager", bf16=True)
    case("weights in bfloat16", half=True)

    def adapted():
        """A pass of the model with an adapter of peft"""
        model = peft.get_peft_model(
            make(),
            peft.LoraConfig(r=4, lora_dropout=0.1, init_lora_weights=False, target_modules=["q_proj", "v_proj"]),
        ).train()
        torch.manual_seed(7)
        result = model(**batch)
        result.loss.backward()
        tensors[f"{label}, adapter.logits"] = result.logits.detach()
        trained = {
            n.removeprefix("base_model.model.").replace(".default.", "."): p.grad
            for n, p in model.named_parameters()
            if p.requires_grad and p.grad is not None
        }
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            saved = {n: sha(p) for n, p in load_file(os.path.join(folder, "adapter_model.safetensors")).items()}
        return dict(
            saved=saved,
            grads={n: sha(g) for n, g in trained.items()},
            norms={n: float(f"{g.double().norm():.6g}") for n, g in trained.items()},
        )

    entry["adapter"] = adapted()

    def train(model):
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
        return dict(
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=shas(model),
            eval_loss=trainer.evaluate()["eval_loss"].hex(),
        )

    if label == "whisper":
        frozen = make()
        frozen.freeze_encoder()
        entry["frozen"] = train(frozen)
    model = make()
    entry["run"] = train(model)
    model.eval()
    factor = 0.6 / model.config.init_std
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor if p.dim() > 1 else 1)  # tokens that are far apart
    for content, chosen in FILES:
        content = {k: v for k, v in content.items() if v is not None}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "generation_config.json").write_text(json.dumps(content))
            model.generation_config = GenerationConfig.from_pretrained(folder)
            torch.manual_seed(3)
            rows = model.generate(batch["input_features"], **chosen)
            entry["files"].append(dict(content=content, settings=chosen, rows=rows.tolist()))
    entry["segments"] = []
    for long, content, chosen in SEGMENTS:
        content = {k: v for k, v in content.items() if v is not None}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "generation_config.json").write_text(json.dumps(content))
            model.generation_config = GenerationConfig.from_pretrained(folder)
            torch.manual_seed(3)
            given = tensors["long"] if long else batch["input_features"][:1]
            found = model.generate(given, return_timestamps=True, return_segments=True, **chosen)["segments"][0]
            entry["segments"].append(
                dict(
                    long=long,
                    content=content,
                    settings=chosen,
                    segments=[
                        dict(start=float(s["start"]), end=float(s["end"]), ids=s["tokens"].tolist()) for s in found
                    ],
                )
            )
    out["models"].append(entry)

causal.write(str(here / "whisper"), out)
