package main

import (
	"context"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// training is a small model with data drawn from a seed: every call of train starts with the same
// weights.
type training struct {
	name  string
	train func(r recipe) error
}

// recipe is what a probe varies in a training.
type recipe struct {
	updates int
	engine  engine.Options
	trainer func(o *trainer.Options) // nil: unchanged
	record  *record                  // nil: nothing is read back
	save    string                   // folder for the final weights; empty: none
}

// record holds what a run computed.
type record struct{ Losses, Norms []float64 }

// trainings returns the three kinds of models that the project began with.
func trainings(m machine, dropout float64) []training {
	return []training{mlp(m), bertOf(m, 2, 128, dropout), plates(m)}
}

func mlp(m machine) training {
	random := rand.New(rand.NewPCG(1, 2))
	samples := make(data.Slice[data.Example], m.less(256, 32))
	for i := range samples {
		samples[i] = data.Example{Features: noise(random, 784), Class: random.Int64N(10)}
	}
	return training{"mlp", func(r recipe) error {
		torch.ManualSeed(11)
		model := nn.Sequential{nn.NewLinear(784, 256, nil), nn.ReLU{}, nn.NewLinear(256, 256, nil), nn.ReLU{},
			nn.NewLinear(256, 10, nil)}
		return fit(engine.Classify(model), samples, m.less(64, 8), r)
	}}
}

// bertOf trains on texts of different lengths, so that batches differ in shape.
func bertOf(m machine, layers, hidden int64, dropout float64) training {
	random := rand.New(rand.NewPCG(3, 4))
	samples := make(data.Slice[bert.Sample], m.less(64, 16))
	for i := range samples {
		ids := make([]int64, 8+random.IntN(40))
		for j := range ids {
			ids[j] = 1 + random.Int64N(999)
		}
		samples[i] = bert.Sample{InputIDs: ids, Label: random.Int64N(2)}
	}
	return training{"bert", func(r recipe) error {
		torch.ManualSeed(11)
		task, err := newBERT(layers, hidden, dropout)
		if err != nil {
			return err
		}
		return fit(task, samples, m.less(8, 4), r)
	}}
}

func newBERT(layers, hidden int64, dropout float64) (engine.Task[bert.Sample, bert.Batch], error) {
	model, err := bert.NewClassifier(bert.Config{VocabSize: 1000, HiddenSize: hidden, NumLayers: layers,
		NumHeads: hidden / 64, IntermediateSize: 4 * hidden, HiddenDropout: &dropout, AttentionDropout: &dropout})
	if err != nil {
		return nil, err
	}
	return classify.NewTask(model, classify.TaskOptions{})
}

func plates(m machine) training {
	random := rand.New(rand.NewPCG(5, 6))
	samples := make(data.Slice[crnn.Sample], m.less(32, 4))
	for i := range samples {
		samples[i] = crnn.Sample{Pixels: noise(random, 32*128), Text: strconv.Itoa(1_000_000 + random.IntN(9_000_000))}
	}
	config := crnn.Config{Charset: []string{"", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}}
	if m.tiny {
		config.ConvChannels, config.RNNDim = []int64{4, 4, 8, 8, 8, 8, 8}, 8
	}
	return training{"crnn", func(r recipe) error {
		torch.ManualSeed(11)
		model, err := crnn.New(config)
		if err != nil {
			return err
		}
		return fit(crnn.NewTask(model), samples, m.less(8, 2), r)
	}}
}

func noise(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

func fit[S, B any](task engine.Task[S, B], samples data.Dataset[S], batch int, r recipe) error {
	if r.engine.Optimizer == nil {
		r.engine.Optimizer = optim.AdamW{LR: 1e-3, WeightDecay: new(0.0)}
	}
	step, err := engine.New(task, r.engine)
	if err != nil {
		return err
	}
	o := trainer.Options{MaxSteps: r.updates, BatchSize: batch, Seed: 7, Eval: trainer.Never, Save: trainer.Never,
		Log: trainer.Never, Progress: io.Discard}
	if r.trainer != nil {
		r.trainer(&o)
	}
	t, err := trainer.New(recorded[S, B]{step, r.record}, o)
	if err != nil {
		return err
	}
	if _, err := t.Fit(context.Background(), samples, nil); err != nil || r.save == "" {
		return err
	}
	return step.Save(r.save, trainer.SaveOptions{WeightsOnly: true})
}

// recorded is an engine's step that records losses and norms.
type recorded[S, B any] struct {
	*engine.Step[S, B]
	record *record
}

func (s recorded[S, B]) Update(ctx context.Context, rate float64) (bool, error) {
	applied, err := s.Step.Update(ctx, rate)
	if err != nil || s.record == nil {
		return applied, err
	}
	report, err := s.Step.Report(ctx)
	s.record.Losses = append(s.record.Losses, report.LossSum)
	s.record.Norms = append(s.record.Norms, report.GradNorm)
	return applied, err
}

// on returns the options for an engine on the device.
func on(m machine, p amp.Precision) engine.Options {
	return engine.Options{Device: m.device, Precision: p}
}
