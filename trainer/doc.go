// Package trainer runs training loops. It knows order, counting, schedules, logs and files, and
// nothing of tensors: a [Step] does the arithmetic, and package trainer/engine makes one of a model
// and libtorch.
//
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/a", Epochs: 3, ResumeFrom: trainer.Latest})
//	result, err := t.Fit(ctx, train, valid)
//
// The loop is that of Hugging Face's Trainer with its known defects mended, or to the letter with
// semantics.HuggingFace in [Options]. docs/trainer.md is the guide, docs/semantics.md has the
// rules.
package trainer
