package trainer_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// epochRates records the learning rate and the momentum of every update.
type epochRates struct {
	*trainertest.Step
	rates, momenta []float64
}

func (s *epochRates) Update(ctx context.Context, rate float64) (bool, error) {
	s.rates, s.momenta = append(s.rates, rate), append(s.momenta, s.Momentum)
	return s.Step.Update(ctx, rate)
}

// The PyTorch loops in testdata/epoch_rates.py step their scheduler after every epoch.
func TestPerEpochHasPyTorchsRatesWithoutACount(t *testing.T) {
	text, err := os.ReadFile("testdata/epoch_rates.json")
	require.NoError(t, err)
	var golden struct {
		Cases []struct {
			Name       string         `json:"name"`
			Args       map[string]any `json:"args"`
			Batches    int            `json:"batches"`
			Accumulate int            `json:"accumulate"`
			Epochs     int            `json:"epochs"`
			MaxUpdates int            `json:"max_updates"`
			Rates      []float64      `json:"rates"`
			Momenta    []float64      `json:"momenta"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.NotEmpty(t, golden.Cases)
	for _, c := range golden.Cases {
		schedule, err := lr.ByName(c.Name, c.Args, 0)
		require.NoError(t, err, c.Name)
		step := &epochRates{Step: new(trainertest.Step)}
		_, err = fitted(t, step, trainer.Options{LearningRate: 0.1, Schedule: lr.PerEpoch{Schedule: schedule},
			Epochs: float64(c.Epochs), Accumulate: c.Accumulate, MaxStepsPerEpoch: c.MaxUpdates, BatchSize: 2},
			2*c.Batches, nil)
		require.NoError(t, err, c.Name)
		assert.Equal(t, c.Rates, step.rates, "rates of %s", c.Name)
		if c.Name == "OneCycleLR" {
			assert.Equal(t, c.Momenta, step.momenta, "momenta of %s", c.Name)
		}
	}
}

// Every loop knows the length of its epochs if all have the same number of updates.
func TestPerEpochInEveryLoop(t *testing.T) {
	for _, c := range []struct {
		claim   string
		rules   semantics.Rules
		options trainer.Options
		want    []float64 // in 3 epochs of 4 batches; nil: the schedule needs a count that the loop does not know
	}{
		{"an update of one batch", semantics.Default, trainer.Options{}, halved(4, 4, 4)},
		{"the given count is used", semantics.Default,
			trainer.Options{Schedule: lr.PerEpoch{Schedule: half, Updates: 3}}, halved(3, 3, 3, 3)},
		{"within other schedules", semantics.Default,
			trainer.Options{Schedule: lr.ChainedScheduler{Schedules: []lr.Schedule{lr.PerEpoch{Schedule: half}}}},
			halved(4, 4, 4)},
		{"Hugging Face's last window is short", semantics.HuggingFace, trainer.Options{Accumulate: 3}, halved(2, 2, 2)},
		{"Hugging Face's run ends in an epoch", semantics.HuggingFace, trainer.Options{MaxSteps: 6}, halved(4, 2)},
		{"Hezar's schedule moves once an epoch", semantics.Hezar, trainer.Options{}, halved(4, 4, 4)},
		{"Hezar's schedule moves every two batches", semantics.Hezar, trainer.Options{ScheduleSteps: 2},
			halved(4, 4, 4)},
		{"Hezar's schedule moves every three batches", semantics.Hezar, trainer.Options{ScheduleSteps: 3}, nil},
		{"PyMarlin's windows fit", semantics.PyMarlin, trainer.Options{Accumulate: 2}, halved(2, 2, 2)},
		{"PyMarlin's windows run over the end of an epoch", semantics.PyMarlin, trainer.Options{Accumulate: 3}, nil},
		{"PyMarlin's epochs are cut before that", semantics.PyMarlin,
			trainer.Options{Accumulate: 3, MaxStepsPerEpoch: 1}, halved(1, 1, 1)},
		{"pytorch-accelerated", semantics.PytorchAccelerated, trainer.Options{Accumulate: 3}, halved(2, 2, 2)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := c.options
			o.Semantics, o.LearningRate, o.BatchSize = c.rules, 0.8, 2
			if o.MaxSteps == 0 {
				o.Epochs = 3
			}
			if o.Schedule == nil {
				o.Schedule = lr.PerEpoch{Schedule: half}
			}
			step := &epochRates{Step: new(trainertest.Step)}
			_, err := fitted(t, step, o, 8, nil)
			if c.want == nil {
				require.ErrorContains(t, err, "PerEpoch.Updates is 0: want the number of updates of an epoch")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, step.rates)
		})
	}
}

func TestPerEpochOfAStreamWantsItsCount(t *testing.T) {
	stream := data.StreamOf(trainertest.Samples(4), nil)
	for updates, want := range map[int]string{0: "PerEpoch.Updates is 0", 2: ""} {
		step := &epochRates{Step: new(trainertest.Step)}
		tr, err := trainer.New(step, trainer.Options{LearningRate: 0.8, MaxSteps: 4, BatchSize: 1, Progress: io.Discard,
			Schedule: lr.PerEpoch{Schedule: half, Updates: updates}})
		require.NoError(t, err)
		_, err = tr.FitStream(t.Context(), stream, nil)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, halved(2, 2), step.rates)
	}
}

var half = lr.StepLR{StepSize: 1, Gamma: 0.5}

// halved returns the rates of epochs with the given numbers of updates, starting at 0.8.
func halved(updates ...int) (rates []float64) {
	rate := 0.8
	for _, n := range updates {
		for range n {
			rates = append(rates, rate)
		}
		rate /= 2
	}
	return rates
}
