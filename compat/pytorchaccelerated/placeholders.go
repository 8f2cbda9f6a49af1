package pytorchaccelerated

import (
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// Placeholders are the numbers of a run that a schedule may need: TrainerPlaceholderValues, by then
// with their values.
type Placeholders struct {
	NumEpochs                        int // of the run
	NumUpdateStepsPerEpoch           int // updates of an epoch, over all processes
	PerProcessNumUpdateStepsPerEpoch int // those of this process
	TrainDataloaderLen               int // batches of a pass over the training set
	EvalDataloaderLen                int // of an evaluation epoch; 0 without evaluation set

	rules Rules
}

// SchedulerFn makes a schedule: create_scheduler_fn.
//
//	CreateSchedulerFn: func(p pytorchaccelerated.Placeholders) (lr.Schedule, error) {
//		return lr.StepLR{StepSize: 7 * p.NumUpdateStepsPerEpoch, Gamma: 0.1}, nil
//	}
type SchedulerFn func(p Placeholders) (lr.Schedule, error)

// Placeholder stands for a number of [Placeholders] among the arguments of [Partial], with a factor
// and a summand.
type Placeholder struct {
	name string
	read func(Placeholders) int
	then []func(int) int
	text string
}

// The placeholders of TrainerPlaceholderValues.
var (
	NumEpochs = Placeholder{name: "NUM_EPOCHS", read: func(p Placeholders) int {
		return p.NumEpochs
	}}
	NumUpdateStepsPerEpoch = Placeholder{name: "NUM_UPDATE_STEPS_PER_EPOCH", read: func(p Placeholders) int {
		return p.NumUpdateStepsPerEpoch
	}}
	PerProcessNumUpdateStepsPerEpoch = Placeholder{name: "PER_PROCESS_NUM_UPDATE_STEPS_PER_EPOCH",
		read: func(p Placeholders) int { return p.PerProcessNumUpdateStepsPerEpoch }}
	TrainDataloaderLen = Placeholder{name: "TRAIN_DATALOADER_LEN", read: func(p Placeholders) int {
		return p.TrainDataloaderLen
	}}
	EvalDataloaderLen = Placeholder{name: "EVAL_DATALOADER_LEN", read: func(p Placeholders) int {
		return p.EvalDataloaderLen
	}}
)

// Mul returns the placeholder times n: NUM_UPDATE_STEPS_PER_EPOCH * 7.
func (p Placeholder) Mul(n int) Placeholder {
	return p.with(fmt.Sprintf("*%d", n), func(v int) int { return v * n })
}

// Add returns the placeholder plus n, which may be negative. What was done to the placeholder
// before is done first: NumEpochs.Add(1).Mul(2) is twice one epoch more, where Python's eval, which
// joins the text, has NUM_EPOCHS + 1*2.
func (p Placeholder) Add(n int) Placeholder {
	return p.with(fmt.Sprintf("%+d", n), func(v int) int { return v + n })
}

func (p Placeholder) with(text string, f func(int) int) Placeholder {
	p.then = append(p.then[:len(p.then):len(p.then)], f)
	if p.text != "" && text[0] == '*' {
		p.text = "(" + p.String() + ")" + text
		p.name = ""
		return p
	}
	p.text += text
	return p
}

// String is the expression: "NUM_UPDATE_STEPS_PER_EPOCH*7".
func (p Placeholder) String() string { return p.name + p.text }

// Value is the number that the placeholder stands for.
func (p Placeholder) Value(of Placeholders) int {
	if p.read == nil {
		return 0
	}
	v := p.read(of)
	for _, f := range p.then {
		v = f(v)
	}
	return v
}

// Partial makes a schedule of the class of this name, of PyTorch, timm or transformers, with
// Python's keyword arguments, in which placeholders are replaced when the run begins:
// functools.partial(OneCycleLR, max_lr=..., epochs=TrainerPlaceholderValues.NUM_EPOCHS). lr.ByName
// says which names and arguments there are.
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
