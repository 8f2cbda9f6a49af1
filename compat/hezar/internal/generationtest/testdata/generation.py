"""Hezar's models that write texts, as Hezar 1.0.0 has them: python generation.py writes beside it

    t5/, gpt2/         folders that Hezar saved: a T5 with an output layer of its own, as in files of older transformers, and a GPT-2
    summaries/         a data set, as the Hub holds them
    generation.json    logits, losses, what is written, batches of the data set, and the files of a run of Hezar's Trainer on a T5 of seed 42
    generation.safetensors

GPT2TextGenerationConfig's summary_activation, False, is refused by transformers 5.17; here it is a text, which nothing
uses. The run has rouge and bleu by their usual definitions: Hezar's ROUGE takes a reference's characters for
references (score_multi of a text), and its BLEU (NLTK) the words for references and their characters for words;
rouge_score leaves out letters that are not ASCII. Needs hezar, datasets, nltk and rouge_score.
"""

import importlib.util
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
from collections import Counter

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[4] / "scripts/golden"))
import pins  # noqa: E402, F401

missing = [name for name in ("hezar", "datasets", "nltk", "rouge_score") if importlib.util.find_spec(name) is None]
if missing:
    print(*missing, "not installed; the recordings stay as they are")
    sys.exit(0)
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", ACCELERATE_USE_CPU="true")
import datasets
import torch
import transformers
from goldenfile import save_file
from hezar.data import TextSummarizationDataset
from hezar.data.datasets.text_summarization_dataset import TextSummarizationDatasetConfig
from hezar.metrics import BLEU, ROUGE
from hezar.models import GPT2TextGeneration, GPT2TextGenerationConfig, Model, T5TextGeneration, T5TextGenerationConfig
from hezar.models.text_generation.gpt2.gpt2_text_generation_config import GenerationConfig
from hezar.preprocessors import PreprocessorsContainer
from hezar.preprocessors.tokenizers import SentencePieceUnigramConfig, SentencePieceUnigramTokenizer
from hezar.trainer import Trainer, TrainerConfig
from hezar.trainer import trainer as trainer_module
from rouge_score import rouge_scorer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

torch.set_num_threads(1)
out, tensors = {}, {}
for name in ("t5", "gpt2", "summaries"):
    shutil.rmtree(here / name, ignore_errors=True)

SPECIAL, WORDS = ["<pad>", "</s>", "<unk>"], "the dog cat sat on a mat and ran far in rain کتاب خوب متن خلاصه".split()
PIECES = SPECIAL + ["▁" + w for w in WORDS] + ["▁", ":"] + list("abcdefghimnorstu")


def tokenizer(folder, ends):
    t = Tokenizer(
        models.Unigram([(p, 0.0 if i < 3 else -float(i % 7) - 2 * (i >= 19)) for i, p in enumerate(PIECES)], unk_id=2)
    )
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.add_special_tokens([AddedToken(s, special=True) for s in SPECIAL])
    if ends:
        t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    t.save(str(folder / "t.json"))
    return PreprocessorsContainer(
        {
            "sentencepiece_unigram_tokenizer": SentencePieceUnigramTokenizer(
                SentencePieceUnigramConfig(), tokenizer_file=str(folder / "t.json")
            )
        }
    )


T5 = dict(
    vocab_size=len(PIECES),
    d_model=16,
    d_kv=4,
    d_ff=24,
    num_layers=2,
    num_decoder_layers=1,
    num_heads=4,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=12,
    max_length=9,
)
GPT2 = dict(
    vocab_size=len(PIECES),
    n_embd=16,
    n_head=2,
    n_layer=2,
    n_positions=24,
    n_ctx=24,
    bos_token_id=1,
    eos_token_id=1,
    summary_activation="tanh",
    generation=GenerationConfig(max_new_tokens=7, no_repeat_ngram_size=0, num_beams=3, eos_token_id=1, pad_token_id=0),
)
INPUTS = ["the dog sat", "کتاب خوب and a cat ran", "in rain"]
IDS = torch.tensor([[3, 4, 6, 9, 12, 1], [15, 16, 5, 1, 0, 0], [8, 7, 20, 21, 3, 1]])
MASK, LABELS = (IDS != 0).long(), torch.tensor([[4, 6, 1, 0], [16, 15, 9, 1], [20, 1, 0, 0]])


def forward(name, model, labels, texts):
    """Logits and loss as the Trainer computes them, in evaluation mode"""
    model.eval()
    with torch.inference_mode():
        logits = model(token_ids=IDS, attention_mask=MASK, **({"labels": labels} if name == "t5" else {}))["logits"]
        tensors[name + ".logits"], tensors[name + ".loss"] = logits.clone(), model.compute_loss(logits, labels).clone()
        rows = [
            model.generate(row[keep.bool()][None], **({"attention_mask": None} if name == "t5" else {}))[0].tolist()
            for row, keep in zip(IDS, MASK)
        ]
        out[name] = {"ids": rows, "texts": [model.predict(t)[0]["text"] for t in texts]}
        if name == "t5":
            out[name]["batch"] = model.generate(IDS, MASK).tolist()


with tempfile.TemporaryDirectory() as tmp:
    tmp = pathlib.Path(tmp)
    torch.manual_seed(1)
    model = T5TextGeneration(T5TextGenerationConfig(**T5, input_prefix="خلاصه: "))
    with torch.no_grad():
        model.t5.shared.weight.mul_(0.3)
    state = model.state_dict()
    model.load_state_dict(
        state | {"t5.lm_head.weight": torch.randn_like(state["t5.lm_head.weight"])}
    )  # assigns: no tensor is tied to another any more
    model.preprocessor = tokenizer(tmp, ends=True)
    model.save(str(here / "t5"))
    again = Model.load(str(here / "t5"))
    forward("t5", again, LABELS, INPUTS)

    torch.manual_seed(2)
    model = GPT2TextGeneration(GPT2TextGenerationConfig(**GPT2))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(6 if p.dim() > 1 else 1)
    model.preprocessor = tokenizer(tmp, ends=False)
    model.save(str(here / "gpt2"))
    again = Model.load(str(here / "gpt2"))
    forward("gpt2", again, IDS.masked_fill(MASK == 0, -100), INPUTS)
    for label, chosen in {
        "greedy": dict(num_beams=1, early_stopping=False, length_penalty=1.0, max_new_tokens=5),
        "grams": dict(no_repeat_ngram_size=2),
    }.items():
        again = Model.load(str(here / "gpt2")).eval()  # generate changes its config; predict passes no settings on
        out["gpt2"][label] = [
            again.post_process(again.generate(**again.preprocess(t), **chosen))[0]["text"] for t in INPUTS
        ]

    # a data set
    g = torch.Generator().manual_seed(9)
    pick = lambda n: int(torch.randint(n, (), generator=g))
    rows = []
    for _ in range(17):
        words = [WORDS[pick(11)] for _ in range(3 + pick(7))]
        rows.append({"text": " ".join(words), "summary": " ".join(words[: 4 + pick(2)]), "title": words[-1]})
    (here / "summaries/data").mkdir(parents=True)
    for split, part in (("train", rows[:12]), ("test", rows[12:])):
        datasets.Dataset.from_list(part).to_parquet(here / "summaries/data" / f"{split}-00000-of-00001.parquet")
    TextSummarizationDatasetConfig(
        path="hezarai/summaries",
        prefix="خلاصه: ",
        text_field="text",
        summary_field="summary",
        title_field="title",
        max_length=9,
        labels_max_length=5,
    ).save(str(here / "summaries"), "dataset_config.yaml")
    TextSummarizationDataset.cache_dir = str(tmp / "cache")
    container = tokenizer(tmp, ends=True)

    def split(name, **settings):
        from hezar.configs import DatasetConfig

        config = DatasetConfig.load(str(here / "summaries"), filename="dataset_config.yaml", **settings)
        config.path = str(here / "summaries")
        return TextSummarizationDataset(config, split=name, preprocessor=container)

    out["batches"] = []
    for settings in ({}, dict(max_length=None, labels_max_length=None), dict(max_length=20), dict(max_length=None)):
        d = split("test", **settings)
        b = d.data_collator([d[i] for i in range(len(d))])
        out["batches"].append({"settings": settings, **{k: v.tolist() for k, v in b.items()}})

    # a run of Hezar's Trainer
    def rouge(self, predictions, targets, **kwargs):
        scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
        scores = [scorer.score(t, p) for p, t in zip(predictions, targets)]
        return {k: round(sum(s[k].fmeasure for s in scores) / len(scores), 4) for k in scores[0]}

    def bleu(self, predictions, targets, **kwargs):
        pairs = [(p.split(), t.split()) for p, t in zip(predictions, targets)]
        grams = lambda words, n: Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        precisions = [
            (sum((grams(p, n) & grams(t, n)).total() for p, t in pairs), sum(grams(p, n).total() for p, _ in pairs))
            for n in (1, 2, 3, 4)
        ]
        length, wanted = (sum(len(pair[k]) for pair in pairs) for k in (0, 1))
        if not all(match for match, _ in precisions):
            return {"bleu": 0.0}
        return {
            "bleu": round(
                math.exp(min(0, 1 - wanted / length) + sum(math.log(match / total) / 4 for match, total in precisions)),
                4,
            )
        }

    originals = ROUGE.compute, BLEU.compute
    ROUGE.compute, BLEU.compute = rouge, bleu
    trainer_module.resolve_logdir = lambda folder: os.path.join(folder, "run")
    os.chdir(tmp)
    torch.manual_seed(42)
    model = T5TextGeneration(T5TextGenerationConfig(**T5))
    initial = {n: p.clone() for n, p in model.state_dict().items()}
    train = split("train")
    config = TrainerConfig(
        output_dir="t5-summaries",
        task="text_generation",
        batch_size=4,
        eval_batch_size=3,
        num_epochs=25,
        use_cpu=True,
        optimizer="adam",
        learning_rate=2e-2,
        metrics=["rouge", "bleu"],
        save_steps=75,
        metric_for_best_model="bleu",
    )
    written = []

    class Recording(Trainer):
        def evaluation_step(self, batch):
            outputs = super().evaluation_step(batch)
            written.append(outputs["logits"].tolist())
            return outputs

    train.config.path = "hezarai/summaries"
    trainer = Recording(
        config=config,
        model=model,
        train_dataset=train,
        eval_dataset=split("train", max_size=5),
        data_collator=train.data_collator,
        preprocessor=container,
    )
    trainer.train()  # evaluated on what it learns, so that it writes something
    text = lambda name: (tmp / "t5-summaries" / name).read_text()
    out["run"] = {
        "written": written,
        "files": {
            name: text(name)
            for name in (
                "logs/run/training_logs.csv",
                "checkpoints/trainer_state.yaml",
                "checkpoints/75/model_config.yaml",
                "checkpoints/75/train/train_config.yaml",
                "checkpoints/75/train/dataset_config.yaml",
                "checkpoints/75/preprocessor/tokenizer_config.yaml",
            )
        },
    }
    tensors.update({"initial." + n: p for n, p in initial.items()})
    tensors.update({"final." + n: p for n, p in model.state_dict().items()})
    print(text("logs/run/training_logs.csv"))
    print([len({tuple(r) for r in b}) for b in written], written[-2:])
    ROUGE.compute, BLEU.compute = originals
    own = TrainerConfig(output_dir="own", task="text_generation", batch_size=4, use_cpu=True, metrics=["rouge", "bleu"])
    print(
        "Hezar's own rouge and bleu:",
        Trainer(
            config=own, model=model, train_dataset=train, eval_dataset=split("test"), preprocessor=container
        ).evaluate(),
    )
    off = TrainerConfig(
        output_dir="off", task="text_generation", batch_size=4, use_cpu=True, evaluate_with_generate=False
    )
    try:
        Trainer(
            config=off, model=model, train_dataset=train, eval_dataset=split("test"), preprocessor=container
        ).evaluate()
    except Exception as e:
        print("evaluate_with_generate=False, without metrics:", type(e).__name__, str(e)[:100])
    try:
        Trainer(
            config=TrainerConfig(
                output_dir="t5-summaries",
                task="text_generation",
                batch_size=4,
                use_cpu=True,
                resume_from_checkpoint=True,
            ),
            model=T5TextGeneration(T5TextGenerationConfig(**T5)),
            train_dataset=train,
            eval_dataset=split("test"),
            preprocessor=container,
        )
    except Exception as e:
        print("resume_from_checkpoint=True:", type(e).__name__, str(e)[:120])
save_file(
    {k: v.contiguous().clone() for k, v in tensors.items()},
    str(here / "generation.safetensors"),
    {"made with": f"torch {torch.__version__}, transformers {transformers.__version__}, hezar 1.0.0"},
)
(here / "generation.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n")
