package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// resolve makes the options of the arguments. What is wrong with the sizes, the optimizer or the
// schedule shows when the training begins, as in Python, and is kept in late.
func (a *hfArgs) resolve(known *arguments.TrainingArguments) {
	known.OptimArgs = knownOptimArgs(known)
	known.GradientAccumulationSteps = cmp.Or(a.accumulate, known.GradientAccumulationSteps)
	if a.late = a.lateRefusal(known); a.late == nil {
		a.late = a.apply(known)
	}
	if a.late == nil {
		a.late = recorded.Try(func() { buildable(a.engine.Optimizer) })
	}
	if a.late == nil {
		return
	}
	wrong, ok := errors.AsType[*arguments.Error](a.late)
	a.lateSchedule = ok && strings.HasPrefix(wrong.Argument, "lr_scheduler")
	if known.LRSchedulerType, known.LRSchedulerKwargs = "linear", nil; !a.lateSchedule {
		known.Optim, known.OptimArgs, known.LearningRate = "adamw_torch_fused", "", max(known.LearningRate, 0)
	}
	for _, size := range []*int{&known.PerDeviceTrainBatchSize, &known.PerDeviceEvalBatchSize,
		&known.GradientAccumulationSteps} {
		*size = max(1, *size)
	}
	spec.Check(a.apply(known))
}

// apply makes the options, but for those of this machine.
func (a *hfArgs) apply(known *arguments.TrainingArguments) error {
	t, e := &a.trainer, &a.engine
	*t, *e = trainer.Options{Semantics: semantics.HuggingFace, Progress: io.Discard}, engine.Options{}
	if err := known.Apply(t, e); err != nil {
		return err
	}
	t.OutputDir, t.Logger, t.Workers, t.Prefetch = "", nil, 1, 0
	e.IgnoreFP16OnCPU = true
	a.fullEval = map[amp.Precision]torch.DType{amp.BF16: torch.BFloat16, amp.FP16: torch.Float16}[e.FullEval]
	e.FullEval = amp.FP32
	return nil
}

// lateRefusal is what stops the recorded trainer, and not ours, when the training begins.
func (a *hfArgs) lateRefusal(known *arguments.TrainingArguments) error {
	switch {
	case a.Workers == 0 && a.Persistent:
		return fmt.Errorf("dataloader_persistent_workers is set without workers")
	case slices.ContainsFunc(strings.Fields(packaged), func(part string) bool {
		return strings.Contains(known.Optim, part)
	}):
		return fmt.Errorf("optim is %s, of a package that the recordings are made without", known.Optim)
	}
	return nil
}

// buildable fails with what is wrong with the settings of an optimizer, on a parameter of no
// importance.
func buildable(b optim.Builder) {
	torch.Scope(func() {
		spec.Must(b.Build([]optim.Group{{Params: []torch.Named{{Name: "any", Tensor: torch.Zeros(1)}}}}))
	})
}

// packaged are parts of the names of optimizers that transformers takes from packages of others,
// none of which the recordings have.
const packaged = "xla npu anyprecision 4bit 8bit 32bit bnb ademamix galore lomo grokadamw schedule_free apollo stable"

// knownOptimArgs leaves out of optim_args what the optimizer does not have, as transformers does
// without a word.
func knownOptimArgs(known *arguments.TrainingArguments) string {
	refused := func(text string) bool {
		_, err := optim.ByName(known.Optim, optim.Arguments{OptimArgs: text})
		return err != nil
	}
	parts := strings.Split(known.OptimArgs, ",")
	if !refused(known.OptimArgs) || slices.ContainsFunc(parts, func(p string) bool {
		return !strings.Contains(p, "=")
	}) {
		return known.OptimArgs
	}
	return strings.Join(slices.DeleteFunc(parts, refused), ",")
}
