package pymarlin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// Tensorboard writes numbers as TensorBoard's events. Several numbers go under KEY/NAME. Events of
// earlier runs in the folder stay, where PyMarlin empties it, so that a resumed run goes on with
// its curves.
type Tensorboard struct {
	events *callback.EventWriter
}

var (
	_ Writer      = (*Tensorboard)(nil)
	_ ModelWriter = (*Tensorboard)(nil)
	_ ArgsWriter  = (*Tensorboard)(nil)
)

// NewTensorboard makes a new file of events in TBLogDir.
func NewTensorboard(args WriterInitArguments) (*Tensorboard, error) {
	events, err := callback.NewEventWriter(args.withDefaults().dir())
	if err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	return &Tensorboard{events}, nil
}

// LogScalar writes a number.
func (w *Tensorboard) LogScalar(key string, value float64, step int) error {
	return w.events.AddScalar(key, value, step)
}

// LogMulti writes each number under KEY/NAME.
func (w *Tensorboard) LogMulti(key string, values map[string]float64, step int) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := w.events.AddScalar(key+"/"+name, values[name], step); err != nil {
			return err
		}
	}
	return nil
}

// LogModel writes the norms of a parameter and of its gradient.
func (w *Tensorboard) LogModel(name string, weights, gradients torch.Tensor, step int) error {
	err := w.events.AddScalar("weight_norm/"+name, norm(weights), step)
	if err == nil && gradients.Defined() {
		err = w.events.AddScalar("grad_norm/"+name, norm(gradients), step)
	}
	return err
}

// LogArgs writes each setting as a text.
func (w *Tensorboard) LogArgs(args map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := w.events.AddText(name, args[name], 0); err != nil {
			return err
		}
	}
	return nil
}

// Flush has TensorBoard see what was written.
func (w *Tensorboard) Flush() error { return w.events.Flush() }

// Close closes the file.
func (w *Tensorboard) Close() error { return w.events.Close() }
