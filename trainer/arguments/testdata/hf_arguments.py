"""Writes hf_arguments.json: what transformers.HfArgumentParser makes of command lines and files, as the arguments that
differ from their defaults, and which of them TrainingArguments refuses. Run with the transformers version that
docs/training-arguments.md names.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import sys
import tempfile

import transformers
import yaml
from transformers import HfArgumentParser, TrainingArguments

LINES = [
    "",
    "--do_train --do_eval",
    "--do_train True --do_eval no --fp16 false --bf16=t --use_cpu y",
    "--no_dataloader_pin_memory --no-log-on-each-node",
    "--dataloader_pin_memory false --log_on_each_node 0",
    "--learning_rate 2e-5 --num_train_epochs=2 --max_steps -1 --seed 0",
    "--per-device-train-batch-size 16 --per_device_eval_batch_size 4",
    "--learning-rate 1e-4 --learning_rate 3e-4",
    "--label_names a b c --do_train",
    "--label_names a --label_names b",
    "--include_for_metrics inputs loss",
    "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end",
    "--eval_strategy steps --logging_steps 0.1",
    "--eval_strategy steps --save_strategy steps --load_best_model_at_end --eval_steps 0.2 --save_steps 0.4",
    '--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs {"min_lr":"1e-6","num_cycles":"0.5"} --warmup_steps 0.1',
    "--optim galore_adamw --optim_target_modules attn --optim_args rank=64,update_proj_gap=100",
    "--optim sgd --optim_args=momentum=0.9,nesterov=true",
    "--tf32 false --greater_is_better True --hub_private_repo no",
    "--max_grad_norm 0 --neftune_noise_alpha 0.1 --label_smoothing_factor 0.1",
    "--log_level warning --log_level_replica error --log_on_each_node 0",
    "--include_num_input_tokens_seen",
    "--include_num_input_tokens_seen no --seed 1",
    "--disable_tqdm true --save_total_limit 2 --data_seed 7 --report_to none",
    "--resume_from_checkpoint runs/checkpoint-10 --output_dir runs --overwrite",
    "--push_to_hub --hub_model_id me/bert --hub_strategy checkpoint",
    "--num_train 2",
    "--per_device 2",
    "--do_trai --gradient_acc 4",
    # refused by argparse
    "--learning_rate",
    "--learning_rate fast",
    "--max_steps 1.5",
    "--fp16 maybe",
    "--label_names --do_train",
    "--optim adamw_super",
    "--no_do_train",
    "--output_dir --do_train",
    "--learning_rat 1 stray",
    "--do_train true false",
    "--tf32",
    "--no_log_on_each_node=true",
    # refused by TrainingArguments
    "--fp16 --bf16 --use_cpu",
    "--fp16_full_eval --bf16_full_eval --use_cpu",
    "--logging_steps 0",
    "--logging_steps 1.5",
    "--save_steps 2.5",
    "--save_steps 0",
    "--eval_strategy epoch --load_best_model_at_end",
    "--eval_strategy steps --load_best_model_at_end --eval_steps 300 --save_steps 500",
    "--eval_strategy steps --load_best_model_at_end --eval_steps 0.3 --save_steps 500",
    "--eval_strategy steps --load_best_model_at_end --eval_steps 0.3 --save_steps 0.5",
    "--eval_strategy epoch --save_strategy best --load_best_model_at_end",
    "--lr_scheduler_type reduce_lr_on_plateau",
    "--lr_scheduler_type greedy --eval_strategy epoch",
    "--warmup_steps -1",
    "--torch_empty_cache_steps 0",
    "--dataloader_prefetch_factor 2",
    "--dataloader_prefetch_factor 2 --dataloader_num_workers 2",
]
DICTS = [
    {},
    {
        "learning_rate": 2e-5,
        "num_train_epochs": 2,
        "do_train": True,
        "output_dir": "your-model",
        "eval_strategy": "epoch",
    },
    {
        "optim": "galore_adamw",
        "optim_target_modules": ["attn", "mlp"],
        "optim_args": "rank=64, update_proj_gap=100, scale=0.10",
    },
    {"lr_scheduler_kwargs": {"num_cycles": 2}, "lr_scheduler_type": "cosine_with_restarts", "label_names": ["labels"]},
    {
        "max_grad_norm": None,
        "save_total_limit": None,
        "eval_steps": 10,
        "report_to": ["none"],
        "resume_from_checkpoint": True,
    },
    {"include_num_input_tokens_seen": "non_padding", "seed": 0, "data_seed": 3},
    {"include_num_input_tokens_seen": True},
    {"evaluation_strategy": "epoch"},
    {"fp16": True, "bf16": True, "use_cpu": True},
]
# files by their names, program.args beside program.py among them; what parse_args_into_dataclasses is given; the
# command line
FILES = [
    ({"program.args": "--rate 0.5 --name of-file\n--labels a b"}, {}, ""),
    ({"program.args": "--rate 0.5 --name of-file\n--labels a b"}, {}, "--name of-line --labels c"),
    ({"program.args": "--train\n--labels a"}, {}, "b --rate 2"),
    ({"program.args": '--name "two words"'}, {}, ""),
    ({"program.args": '--name "quoted" # --train'}, {}, ""),
    ({"program.args": ""}, {}, "--rate 2"),
    ({"program.args": "--unknown 1"}, {}, "--rate 2"),
    ({"program.args": "--rate 0.5"}, {"look_for_args_file": False}, "--name x"),
    ({"program.args": "--rate 0.5", "other.args": "--rate 0.25"}, {"args_filename": "other.args"}, "--name x"),
    (
        {"program.args": "--rate 0.5", "other.args": "--rate 0.25"},
        {"args_filename": "other.args", "look_for_args_file": False},
        "",
    ),
    ({"other.args": "--rate 0.25"}, {"args_file_flag": "--args_file"}, "--args_file other.args --name x"),
    (
        {"program.args": "--rate 0.5 --train", "other.args": "--rate 0.25"},
        {"args_file_flag": "--args_file"},
        "--name x --args_file=other.args",
    ),
    (
        {"a.args": "--rate 1 --name a", "b.args": "--rate 2"},
        {"args_file_flag": "--args_file"},
        "--args_file a.args --args_file b.args --train",
    ),
    (
        {"a.args": "--rate 1 --name a", "b.args": "--rate 2"},
        {"args_file_flag": "--args_file"},
        "--args_file b.args --name c --args_file a.args",
    ),
    ({"a.args": "--rate 1"}, {"args_file_flag": "--args_file"}, "--args a.args --train"),
    ({"a.args": "--rate 1"}, {"args_file_flag": "--args_file"}, "--args_file"),
    ({"a.args": "--rate 1"}, {"args_file_flag": "--args_file"}, "--args_file --train"),
    (
        {"a.args": "--rate 1", "b.args": "--train", "program.args": "--name p"},
        {"args_filename": "b.args", "args_file_flag": "--args_file"},
        "--args_file a.args",
    ),
]


@dataclasses.dataclass
class Own:
    rate: float = 0.1
    name: str = "none"
    train: bool = False
    labels: list[str] = dataclasses.field(default_factory=list)


def plain(value):
    value = getattr(value, "value", value)
    return value if isinstance(value, (str, int, float, bool, type(None), list, dict)) else str(value)


def refused(values):
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            TrainingArguments(**values)
    except (ValueError, TypeError, ImportError):
        return True
    return False


parser = HfArgumentParser(TrainingArguments)
usual = {k: plain(v) for k, v in vars(parser.parse_args([])).items()}
lines = []
for line in LINES:
    case = {"line": line}
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            namespace, rest = parser.parse_known_args(line.split())
        if rest:
            raise SystemExit
        values = {k: plain(v) for k, v in vars(namespace).items()}
        case["values"] = {
            k: v for k, v in values.items() if v != usual[k] or type(v) is not type(usual[k]) and v is None
        }
        case["refused"] = refused(values)
    except SystemExit:
        case["unreadable"] = True
    lines.append(case)
dicts = []
for values in DICTS:
    case = {"json": values, "unreadable": False}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.yaml")
        with open(path, "w") as f:
            yaml.safe_dump(values, f)
        try:
            HfArgumentParser(TrainingArguments).parse_yaml_file(path)
        except (ValueError, TypeError):
            case["unreadable"] = True
    dicts.append(case)
files = []
for contents, kwargs, line in FILES:
    case = {"files": contents, "kwargs": kwargs, "line": line, "unreadable": False}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in contents.items():
            pathlib.Path(name).write_text(text)
        sys.argv = [os.path.join(folder, "program.py")]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                case["values"] = dataclasses.asdict(
                    HfArgumentParser(Own).parse_args_into_dataclasses(line.split(), **kwargs)[0]
                )
        except (SystemExit, ValueError):
            case["unreadable"] = True
    files.append(case)
REPORTED = "--output_dir out --learning_rate 2e-5 --warmup_steps 0.1 --push_to_hub --hub_model_id me/m --hub_token secret --optim_target_modules q_proj --optim galore_adamw --max_grad_norm 0.5 --eval_steps 10 --disable_tqdm true --report_to mlflow --run_name first"
reported = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(REPORTED.split())[0].to_dict()
out = {
    "transformers": transformers.__version__,
    "lines": lines,
    "dicts": dicts,
    "files": files,
    "reported": {"line": REPORTED, "texts": {k: str(v) for k, v in reported.items()}},
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf_arguments.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
