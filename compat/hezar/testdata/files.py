"""train_config.yaml, trainer_state.yaml and training_logs.csv as Hezar 1.0.0 writes them."""

import os

from hezar.configs import TrainerConfig
from hezar.metrics.cer import CERConfig
from hezar.trainer.trainer_utils import CSVLogger, TrainerState

here = os.path.dirname(os.path.abspath(__file__))
TrainerConfig(
    output_dir="out/run: 1",
    task="image2text",
    num_epochs=20,
    init_weights_from="hezarai/crnn-fa-printed-96-long",
    resume_from_checkpoint=True,
    max_steps=0.5,
    seed=7,
    optimizer="adamw",
    learning_rate=1e-5,
    weight_decay=0.01,
    lr_scheduler="multi_step",
    lr_scheduler_kwargs={"milestones": [2, 4], "gamma": 0.5},
    lr_scheduling_steps=3,
    batch_size=8,
    eval_batch_size=16,
    gradient_accumulation_steps=2,
    mixed_precision="bf16",
    metrics=["wer", CERConfig(n_decimals=6)],
    metric_for_best_model="cer",
    save_steps=100,
    log_steps=0.1,
    dataloader_shuffle=False,
    do_evaluate=True,
    evaluate_with_generate=True,
).save(here, "train_config.yaml")
TrainerState(
    epoch=3,
    total_epochs=20,
    global_step=17,
    epoch_step=2,
    loss_tracker_sum=1e-7,
    loss_tracker_avg=12345678901234567890.0,
    metric_for_best_checkpoint="evaluation.cer",
    best_metric_value=0.25,
    best_checkpoint=10,
    logs_dir="out/logs/Jan01_00-00-00_host",
).save(os.path.join(here, "trainer_state.yaml"))
log = CSVLogger(here, "training_logs.csv")
log.write({"train.loss": 1.5, "evaluation.cer": 1e-5, "evaluation.loss": float("nan")}, 10)
log.write({"train.loss": 1e16, "evaluation.cer": float("inf"), "evaluation.loss": 0.1}, 20)
