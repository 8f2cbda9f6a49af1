package engine_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// However rows are divided into micro-batches, the gradient of a window is that of all its rows in
// one batch. They are weighted by tokens if the task counts them, and otherwise by batches, if
// these have the same size.
func TestGradientOfAWindowIsThatOfItsRowsInOneBatch(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	torch.ManualSeed(11)
	model := newTagger(0)
	nn.To(model, torch.TensorOptions{DType: torch.Float64})
	counted, err := engine.New[tokens, tokenBatch](&countingTask{tagTask{model}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	smoothed, err := engine.New[tokens, tokenBatch](&countingTask{tagTask{model}}, engine.Options{LabelSmoothing: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	mean, err := engine.New[tokens, tokenBatch](&tagTask{model}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		step, equal := counted, false
		switch rapid.IntRange(0, 2).Draw(r, "loss") {
		case 1:
			step = smoothed
		case 2:
			step, equal = mean, true
		}
		windows := windowOf(r, equal)
		whole := gradient(r, step, model, [][]tokens{flatten(windows)})
		parts := gradient(r, step, model, windows)
		for i := range whole {
			if d := math.Abs(whole[i] - parts[i]); d > 1e-12 {
				r.Fatalf("element %d of the gradient is %g in one batch and %g in %d parts: they differ by %g", i,
					whole[i], parts[i], len(windows), d)
			}
		}
	})
}

// windowOf draws the micro-batches of a window, with rows of different widths, the last one perhaps
// short. With equal, all have the same number of rows and of labels.
func windowOf(r *rapid.T, equal bool) (window [][]tokens) {
	rows, width := rapid.IntRange(1, 4).Draw(r, "rows"), rapid.IntRange(1, 6).Draw(r, "width")
	row := 0
	for range rapid.IntRange(1, 5).Draw(r, "micro-batches") {
		if !equal {
			rows = rapid.IntRange(1, 4).Draw(r, "rows")
		}
		var batch []tokens
		for range rows {
			if !equal {
				width = rapid.IntRange(1, 6).Draw(r, "width")
			}
			s := tokens{row: row}
			for i := range width {
				label := rapid.Int64Range(0, taggerClasses-1).Draw(r, "label")
				if i > 0 && !equal && rapid.Bool().Draw(r, "padding") {
					label = engine.IgnoreIndex
				}
				s.ids, s.labels = append(s.ids, rapid.Int64Range(1, taggerVocab-1).Draw(r, "token")),
					append(s.labels, label)
			}
			batch = append(batch, s)
			row++
		}
		window = append(window, batch)
	}
	return window
}

func flatten(window [][]tokens) (all []tokens) {
	for _, b := range window {
		all = append(all, b...)
	}
	return all
}

// gradient returns the gradient of all parameters after the micro-batches of a window.
func gradient(r *rapid.T, s *tagStep, model *tagger, window [][]tokens) (all []float64) {
	w := trainer.Window{Len: len(window), Divisor: float64(len(window))}
	batches := make([]tokenBatch, len(window))
	for i, samples := range window {
		var err error
		if batches[i], err = s.Collate(samples); err != nil {
			r.Fatal(err)
		}
		w.Items += s.Count(batches[i]).Items
	}
	for i, b := range batches {
		w.Index = i
		if err := s.Train(r.Context(), b, w); err != nil {
			r.Fatal(err)
		}
	}
	for _, p := range nn.Params(model) {
		all = append(all, torch.Values[float64](p.Tensor.Grad())...)
	}
	s.Optimizer().ZeroGrad()
	return all
}
