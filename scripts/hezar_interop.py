#!/usr/bin/env python3
"""Models go from Hezar to Go and back, and keep the bits of their predictions, weights and files.

    python scripts/hezar_interop.py

The models: CRNN; BERT, RoBERTa and DistilBERT for texts and sequences; T5 and GPT-2. Hezar saves a model with its
preprocessors. Go loads it, predicts and saves it. Hezar loads what Go saved. Then Go trains the text models under
Hezar's Trainer, and Hezar loads the result.

Run it from the root of the repository, with hezar 1.0.0 and torch 2.11.0. The Go side finds libtorch as always
(GOTRAINER_LIB).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
import pins  # noqa: E402, F401

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import numpy as np
import torch
from hezar.data.datasets.ocr_dataset import ID2LABEL
import hezar.models
from hezar.models import CRNNImage2Text, CRNNImage2TextConfig, Model
from hezar.models.text_generation.gpt2.gpt2_text_generation_config import GenerationConfig
from hezar.preprocessors import (
    ImageProcessor,
    ImageProcessorConfig,
    PreprocessorsContainer,
    TextNormalizer,
    TextNormalizerConfig,
)
from hezar.preprocessors.tokenizers import WordPieceConfig, WordPieceTokenizer
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

torch.set_num_threads(1)
failures = 0


def check(what, good, *details):
    global failures
    print("ok  " if good else "FAIL", what, *([] if good else details))
    failures += not good


def wordpiece(folder):
    pieces = "[PAD] [UNK] [SEP] [CLS] [MASK] کتاب خوب بد بود این فیلم خیلی ##ها می ##روم . ! the dog".split()
    ids = {t: i for i, t in enumerate(pieces)}
    t = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    t.pre_tokenizer, t.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece("##")
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    t.save(str(folder / "t.json"))
    return WordPieceTokenizer(WordPieceConfig(), tokenizer_file=str(folder / "t.json")), len(pieces)


def image2text(folder):
    """A CRNN whose classifier is strong enough to read something into noise"""
    model = CRNNImage2Text(
        CRNNImage2TextConfig(
            id2label=ID2LABEL,
            image_width=96,
            map2seq_in_dim=1024,
            map2seq_out_dim=24,
            rnn_dim=16,
            reverse_output_digits=True,
        )
    )
    with torch.no_grad():
        model.classifier.weight.mul_(60)
        model.map2seq.weight.mul_(20)
        model.classifier.bias[0] = 0.5
    model.preprocessor = PreprocessorsContainer(
        {
            "image_processor": ImageProcessor(
                ImageProcessorConfig(
                    gray_scale=True, mirror=True, size=(96, 32), rescale=1 / 255, mean=[0.5], std=[0.5]
                )
            )
        }
    )
    files = []
    for i, size in enumerate([(40, 200, 3), (33, 97, 3), (64, 64, 3)]):
        files.append(str(folder / f"{i}.png"))
        Image.fromarray(np.random.RandomState(i).randint(0, 256, size).astype(np.uint8)).save(files[-1])
    return model, files


def texts(class_name, **sizes):
    """A small encoder whose head is strong enough to be sure of something"""

    def make(folder):
        tokenizer, size = wordpiece(folder)
        config = getattr(hezar.models, class_name + "Config")
        labels = {0: "O", 1: "B-چیز", 2: "I-چیز"} if class_name.endswith("Labeling") else {0: "no", 1: "yes", 2: "شاید"}
        model = getattr(hezar.models, class_name)(config(id2label=labels, num_labels=3, vocab_size=size, **sizes))
        with torch.no_grad():
            for name, p in model.named_parameters():
                if name.endswith(("classifier.weight", "out_proj.weight")) and "pre_" not in name:
                    p.mul_(30)
        model.preprocessor = PreprocessorsContainer(
            {
                "text_normalizer": TextNormalizer(TextNormalizerConfig(replace_patterns=[["ي", "ی"], ["\\s+", " "]])),
                "wordpiece_tokenizer": tokenizer,
            }
        )
        return model, [
            "این فيلم خيلي خوب",
            "کتاب ها بد بود",
            "the dog ! می‌روم",
        ]  # as many tokens each: Hezar cannot pad in predict

    return make


def writers(class_name, **sizes):
    """A small model that writes texts, strong enough not to write one word alone"""

    def make(folder):
        tokenizer, size = wordpiece(folder)
        model = getattr(hezar.models, class_name)(
            getattr(hezar.models, class_name + "Config")(vocab_size=size, **sizes)
        )
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(3 if p.dim() > 1 else 1)
        model.preprocessor = PreprocessorsContainer({"wordpiece_tokenizer": tokenizer})
        return model, ["این فیلم خیلی خوب", "کتاب بد", "the dog ! می‌روم"]

    return make


bert = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=24,
    hidden_act="relu",
    layer_norm_eps=1e-5,
)
roberta = dict(bert, pad_token_id=0, bos_token_id=3, eos_token_id=2)
distilbert = dict(dim=32, n_layers=2, n_heads=4, max_position_embeddings=24)
KINDS = {
    "image2text": image2text,
    "bert_text_classification": texts("BertTextClassification", **bert),
    "roberta_text_classification": texts("RobertaTextClassification", **roberta),
    "distilbert_text_classification": texts("DistilBertTextClassification", hidden_dim=48, **distilbert),
    "bert_sequence_labeling": texts("BertSequenceLabeling", **bert),
    "roberta_sequence_labeling": texts("RobertaSequenceLabeling", **roberta),
    "distilbert_sequence_labeling": texts("DistilBertSequenceLabeling", **distilbert),
    "t5_text_generation": writers(
        "T5TextGeneration",
        d_model=16,
        d_kv=4,
        d_ff=24,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        eos_token_id=2,
        max_length=12,
        input_prefix="خیلی ",
    ),
    # the default of summary_activation, False, is one that transformers 5.17 refuses
    "gpt2_text_generation": writers(
        "GPT2TextGeneration",
        n_embd=16,
        n_head=2,
        n_layer=2,
        n_positions=24,
        n_ctx=24,
        bos_token_id=3,
        eos_token_id=2,
        summary_activation="tanh",
        generation=GenerationConfig(
            max_new_tokens=6, no_repeat_ngram_size=0, num_beams=3, eos_token_id=2, pad_token_id=0
        ),
    ),
}


def predictions(kind, model, inputs):
    model.eval()
    if kind == "image2text":
        return [[o["text"], o["score"]] for o in model.predict(list(inputs), return_scores=True)]
    if kind.endswith("generation"):
        return [model.predict(x)[0]["text"] for x in inputs]
    if kind.endswith("labeling"):
        rows = [model.predict(x, return_scores=True, return_offsets=True)[0] for x in inputs]
        return [[[t["token"], t["label"], t["score"], t["start"], t["end"]] for t in row] for row in rows]
    return [[[o["label"], o["score"]] for o in model.predict(x, top_k=9)[0]] for x in inputs]


def of_go(kind, text):
    rows = json.loads(text)
    if kind == "image2text":
        return [[r["Text"], r["Score"]] for r in rows]
    if kind.endswith("generation"):
        return [r["Text"] for r in rows]
    if kind.endswith("labeling"):
        return [[[t["Token"], t["Label"], t["Score"], t["Start"], t["End"]] for t in r["Tags"]] for r in rows]
    return [[[c["Label"], c["Score"]] for c in r["Classes"]] for r in rows]


def close(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    return abs(a - b) <= 1e-6 if isinstance(a, float) else a == b


def main():
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        program = str(tmp / "hezar_interop")
        subprocess.run(["go", "build", "-o", program, "./scripts/hezar_interop"], check=True)
        for kind, make in KINDS.items():
            torch.manual_seed(5)
            folder = tmp / kind
            folder.mkdir()
            model, inputs = make(folder)
            there, back = str(folder / "there"), str(folder / "back")
            model.save(there)
            want = predictions(kind, model, inputs)
            runs = [inputs] if kind == "image2text" else [[x] for x in inputs]  # the same batches as Python's
            got = []
            for batch in runs:
                got += of_go(
                    kind,
                    subprocess.run(
                        [program, there, back, *batch], check=True, stdout=subprocess.PIPE, text=True
                    ).stdout,
                )
            check(f"{kind}: Go predicts what Hezar does: {want}", got == want, got)
            again = Model.load(back)
            check(f"{kind}: Hezar loads what Go saved, as {type(again).__name__}", type(again) is type(model))
            ours, theirs = again.state_dict(), model.state_dict()
            check(
                f"{kind}: all {len(theirs)} tensors, in their order, with their bits",
                list(ours) == list(theirs)
                and all(ours[n].dtype == theirs[n].dtype and ours[n].equal(theirs[n]) for n in theirs),
            )
            check(f"{kind}: the same predictions again", predictions(kind, again, inputs) == want)
            for file in sorted(p.relative_to(there) for p in pathlib.Path(there).rglob("*.yaml")):
                a, b = (pathlib.Path(there) / file).read_text(), (pathlib.Path(back) / file).read_text()
                same = (
                    a.replace("config_type: PREPROCESSOR", "config_type: preprocessor") == b
                )  # Hezar's normalizer writes its type in capitals
                check(f"{kind}: {file} has the same text", same, f"\n{a}\n{b}")
            if kind != "image2text":
                trained = str(folder / "trained")
                run = subprocess.run(
                    [program, "-train", there, trained, *inputs], check=True, stdout=subprocess.PIPE, text=True
                )
                model = Model.load(trained)
                got, want = of_go(kind, run.stdout), predictions(kind, model, inputs)
                check(
                    f"{kind}: Hezar loads what the Trainer has saved, and predicts the same to 1e-6",
                    type(model) is type(again) and close(got, want),
                    got,
                    want,
                )
                check(
                    f"{kind}: the Trainer has trained",
                    not all(a.equal(b) for a, b in zip(model.state_dict().values(), theirs.values())),
                )
    print(f"{failures} failed")
    sys.exit(failures > 0)


main()
