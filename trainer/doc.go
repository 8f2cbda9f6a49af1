// Package trainer runs training loops. It handles order, counting, schedules, logs and files, and
// has no tensors: a [Step] does the arithmetic, and package trainer/engine makes a Step from a
// model and libtorch.
//
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/a", Epochs: 3, ResumeFrom: trainer.Latest})
//	result, err := t.Fit(ctx, train, valid)
//
// The loop is that of Hugging Face's Trainer with its known defects fixed, or reproduced exactly
// with semantics.HuggingFace in [Options]. docs/trainer.md is the guide; docs/semantics.md has the
// rules.
package trainer
