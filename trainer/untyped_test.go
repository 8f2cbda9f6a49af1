package trainer_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// interfaceStep has an interface as its type of batches. A batch that begins with an odd sample is
// nil.
type interfaceStep struct {
	trainer.BaseStep[int, error]
	trained, evaluated []error
	seen               []any // by the hook
	own                bool  // make the loaders
}

type batchOf int

func (batchOf) Error() string { return "a batch, not an error" }

func (s *interfaceStep) About() trainer.About { return trainer.About{KnowsMemory: true} }

func (s *interfaceStep) Collate(samples []int) (error, error) { //nolint:revive,staticcheck // B is error
	if samples[0]%2 == 1 {
		return nil, nil
	}
	return batchOf(samples[0]), nil
}

func (s *interfaceStep) Loader(set data.Dataset[int], o trainer.LoaderOptions) (trainer.BatchLoader[error], error) {
	if !s.own {
		return nil, nil
	}
	return data.NewLoader(set, s.Collate, o.LoaderOptions)
}

func (s *interfaceStep) Train(_ context.Context, batch error, _ trainer.Window) error {
	s.trained = append(s.trained, batch)
	return nil
}

func (s *interfaceStep) Eval(_ context.Context, batch error) error {
	s.evaluated = append(s.evaluated, batch)
	return nil
}

func (s *interfaceStep) Update(context.Context, float64) (bool, error) { return true, nil }

func (s *interfaceStep) Report(context.Context) (trainer.Report, error) { return trainer.Report{}, nil }

func (s *interfaceStep) Metrics(context.Context) (trainer.Metrics, error) {
	return trainer.Metrics{"loss": 1}, nil
}

func (s *interfaceStep) AfterBackward(r *trainer.Run) error {
	s.seen = append(s.seen, r.Batch())
	return nil
}

func TestABatchMayBeANilInterface(t *testing.T) {
	samples := data.Slice[int]{0, 1, 2, 3}
	o := trainer.Options{Progress: io.Discard, BatchSize: 1, EvalBatchSize: 1, Epochs: 1, Order: data.Sequential{}}
	streamed := o
	streamed.Order, streamed.Epochs, streamed.MaxSteps = nil, 0, 4
	divided := o
	divided.DivideOnOutOfMemory = true
	fit := func(tr *trainer.Trainer[int, error]) error {
		_, err := tr.Fit(t.Context(), samples, samples)
		return err
	}
	for name, c := range map[string]struct {
		own bool
		o   trainer.Options
		run func(*trainer.Trainer[int, error]) error
	}{
		"the trainer's loaders": {false, o, fit},
		"the step's loaders":    {true, o, fit},
		"parts":                 {false, divided, fit},
		"streams": {false, streamed, func(tr *trainer.Trainer[int, error]) error {
			stream := data.StreamOf(samples, data.Sequential{})
			_, err := tr.FitStream(t.Context(), stream, trainer.EvalStream[int]{Stream: stream})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &interfaceStep{own: c.own}
			c.o.Callbacks = []any{s}
			tr, err := trainer.New(s, c.o)
			require.NoError(t, err)
			require.NoError(t, c.run(tr))
			want := []error{batchOf(0), nil, batchOf(2), nil}
			assert.Equal(t, want, s.trained, "trained on")
			assert.Equal(t, want, s.evaluated[:4], "evaluated")
			assert.Equal(t, []any{batchOf(0), nil, batchOf(2), nil}, s.seen, "given to a hook")
		})
	}
}
