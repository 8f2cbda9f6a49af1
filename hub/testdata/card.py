"""Writes card.json: model cards of transformers' TrainingSummary, for the test that ours are the same. Also how it
rounds, and what fnmatch says.
"""

import fnmatch
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers  # noqa: E402
import transformers.modelcard as mc  # noqa: E402

mc.is_datasets_available = mc.is_tokenizers_available = mc.is_torch_available = lambda: False

LOG = [
    {"loss": 0.6934, "grad_norm": 1.5, "learning_rate": 5e-05, "epoch": 0.5, "step": 50},
    {
        "eval_loss": 0.412345678,
        "eval_accuracy": 0.8,
        "eval_f1": 0.86123,
        "eval_runtime": 1.5,
        "eval_samples_per_second": 3.1,
        "eval_steps_per_second": 0.4,
        "epoch": 1.0,
        "step": 100,
    },
    {"loss": 0.3, "grad_norm": 1.5, "learning_rate": 1e-05, "epoch": 1.5, "step": 150},
    {
        "eval_loss": 0.3,
        "eval_accuracy": 0.8578431372549019,
        "eval_f1": 0.9,
        "eval_runtime": 1.5,
        "eval_samples_per_second": 3.1,
        "eval_steps_per_second": 0.4,
        "epoch": 2.0,
        "step": 200,
    },
    {
        "train_runtime": 12.3,
        "train_samples_per_second": 5.0,
        "train_steps_per_second": 1.0,
        "total_flos": 1e15,
        "train_loss": 0.49,
        "epoch": 2.0,
        "step": 200,
    },
]
EARLY = [{k: v for k, v in LOG[1].items()}, LOG[3], LOG[4]]
HYPER = {
    "learning_rate": 5e-05,
    "train_batch_size": 8,
    "eval_batch_size": 8,
    "seed": 42,
    "lr_scheduler_type": "linear",
    "num_epochs": 3.0,
    "lr_scheduler_warmup_steps": 0.1,
    "epsilon": 1e-08,
}


def card(log, **kwargs):
    _, lines, results = mc.parse_log_history(log) if log else (None, None, None)
    text = mc.TrainingSummary(eval_results=results, eval_lines=lines, **kwargs).to_model_card()
    return {"log": log, "text": text}


cases = {
    "full": card(
        LOG,
        model_name="bert-mrpc",
        language=["en"],
        license="apache-2.0",
        tags=["generated_from_trainer"],
        finetuned_from="google-bert/bert-base-uncased",
        tasks="text-classification",
        dataset=["GLUE"],
        dataset_tags=["glue"],
        dataset_args=["mrpc"],
        dataset_metadata=[{"config": "mrpc", "split": "validation"}],
        hyperparameters=HYPER,
    ),
    "scratch": card(None, model_name="scratch"),
    "two datasets": card(
        EARLY,
        model_name="two: sets",
        tags=["a", "yes", "1.0"],
        dataset=["A", "B", "C"],
        dataset_tags=["a", "b", "c"],
        dataset_metadata=[{}, {}, {}],
        tasks=["text-classification", "fill-mask", "no-such-task"],
        hyperparameters={"x": None, "y": True},
    ),
}
floats = [
    0.0,
    1.0,
    -1.5,
    0.1,
    1e-4,
    9.9e-5,
    1e-5,
    1.5e-5,
    123456.789,
    1e15,
    9999999999999998.0,
    1e16,
    1.2345e22,
    5e-324,
    1.7976931348623157e308,
    0.30000000000000004,
]
globs = [
    "*",
    "*.json",
    "a?c",
    "[abc]x",
    "[!abc]x",
    "[a-c]x",
    "[c-a]x",
    "[!c-a]x",
    "[]x]y",
    "[!]]y",
    "[abc",
    "a[",
    "[a-]x",
    "[-a]x",
    "a/*",
    "*/b",
    "**/c",
    "",
    "a.b",
    "a+b",
    "(a)",
    "[^a]x",
    "[a-c-e]x",
    "é*",
    "[[]x",
    "a\\b",
    "a*b*c",
]
names = [
    "",
    "a.json",
    "abc",
    "a/b",
    "a/b/c",
    "ax",
    "bx",
    "cx",
    "dx",
    "ex",
    "-x",
    "]y",
    "ay",
    "[abc",
    "a[",
    "a.b",
    "aXb",
    "a+b",
    "(a)",
    "^x",
    "été",
    "[x",
    "a\nc",
    "azbzc",
    "json",
]

with open(os.path.join(os.path.dirname(__file__), "card.json"), "w") as f:
    json.dump(
        {
            "made with": f"transformers {transformers.__version__}",
            "cases": cases,
            "transformers": transformers.__version__,
            "floats": [[x, mc._maybe_round(x)] for x in floats],
            "globs": [
                [g, [n for n in names if fnmatch.fnmatchcase(n.replace("\\", "/"), g.replace("\\", "/"))]]
                for g in globs
            ],
            "names": names,
        },
        f,
        indent=1,
        ensure_ascii=False,
    )
