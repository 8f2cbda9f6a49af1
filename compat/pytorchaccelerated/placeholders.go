package pytorchaccelerated

import (
	"fmt"
	"maps"
	"strings"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// Placeholders are the numbers of a run that a schedule may need: TrainerPlaceholderValues.
type Placeholders struct {
	NumEpochs                        int // of the run
	NumUpdateStepsPerEpoch           int // updates per epoch, over all processes
	PerProcessNumUpdateStepsPerEpoch int // those of this process
	TrainDataloaderLen               int // batches of a pass over the training set
	EvalDataloaderLen                int // batches of an evaluation epoch; 0 without evaluation set

	rules Rules
}

// SchedulerFn makes a schedule: create_scheduler_fn.
//
//	CreateSchedulerFn: func(p pytorchaccelerated.Placeholders) (lr.Schedule, error) {
//		return lr.StepLR{StepSize: 7 * p.NumUpdateStepsPerEpoch, Gamma: 0.1}, nil
//	}
type SchedulerFn func(p Placeholders) (lr.Schedule, error)

// Placeholder stands for one of the numbers in [Placeholders], in [Partial], with a factor and a
// summand.
type Placeholder struct {
	text  string
	value func(Placeholders) int
}

// The placeholders of TrainerPlaceholderValues.
var (
	NumEpochs              = Placeholder{"NUM_EPOCHS", func(p Placeholders) int { return p.NumEpochs }}
	NumUpdateStepsPerEpoch = Placeholder{"NUM_UPDATE_STEPS_PER_EPOCH",
		func(p Placeholders) int { return p.NumUpdateStepsPerEpoch }}
	PerProcessNumUpdateStepsPerEpoch = Placeholder{"PER_PROCESS_NUM_UPDATE_STEPS_PER_EPOCH",
		func(p Placeholders) int { return p.PerProcessNumUpdateStepsPerEpoch }}
	TrainDataloaderLen = Placeholder{"TRAIN_DATALOADER_LEN", func(p Placeholders) int { return p.TrainDataloaderLen }}
	EvalDataloaderLen  = Placeholder{"EVAL_DATALOADER_LEN", func(p Placeholders) int { return p.EvalDataloaderLen }}
)

// Mul returns the placeholder times n: NUM_UPDATE_STEPS_PER_EPOCH * 7.
func (p Placeholder) Mul(n int) Placeholder {
	text := p.text
	if strings.ContainsAny(text, "*+-") {
		text = "(" + text + ")"
	}
	return Placeholder{fmt.Sprintf("%s*%d", text, n), func(of Placeholders) int { return p.Value(of) * n }}
}

// Add returns the placeholder plus n, which may be negative. Earlier operations are done first:
// NumEpochs.Add(1).Mul(2) is twice the number of epochs plus one, whereas Python's eval, which
// joins the text, has NUM_EPOCHS + 1*2.
func (p Placeholder) Add(n int) Placeholder {
	return Placeholder{fmt.Sprintf("%s%+d", p.text, n), func(of Placeholders) int { return p.Value(of) + n }}
}

// String returns the expression: "NUM_UPDATE_STEPS_PER_EPOCH*7".
func (p Placeholder) String() string { return p.text }

// Value returns the number that the placeholder stands for.
func (p Placeholder) Value(of Placeholders) int {
	if p.value == nil {
		return 0
	}
	return p.value(of)
}

// Partial makes a schedule of the named class of PyTorch, timm or transformers with Python's
// keyword arguments, in which placeholders are replaced when the run starts:
// functools.partial(OneCycleLR, max_lr=..., epochs=TrainerPlaceholderValues.NUM_EPOCHS). For the
// names and arguments see lr.ByName.
func Partial(class string, kwargs map[string]any) SchedulerFn {
	return func(p Placeholders) (lr.Schedule, error) {
		values := maps.Clone(kwargs)
		for name, value := range values {
			if placeholder, ok := value.(Placeholder); ok {
				values[name] = placeholder.Value(p)
			}
		}
		if adaptive, err := lr.AdaptiveByName(class, values); err == nil && p.rules.ScheduleQuirks {
			_, err := adaptive.Start(1)
			return unmeasured{adaptive}, err
		}
		return lr.ByName(class, values, 0)
	}
}
