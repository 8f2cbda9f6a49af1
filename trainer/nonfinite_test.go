package trainer_test

import (
	"io"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestAfterANonFiniteLoss: Hugging Face's Trainer brings the sum of losses back to zero by taking it away from itself, which nan and inf survive.
func TestAfterANonFiniteLoss(t *testing.T) {
	unfiltered := semantics.HuggingFace
	unfiltered.FilterNonFiniteLoss = false
	for _, c := range []struct {
		claim string
		rules semantics.Rules
		bad   float64
		want  []float64
	}{
		{"by default a nan is logged once", semantics.Default, math.NaN(), []float64{1, math.NaN(), 3}},
		{"by default an inf is logged once", semantics.Default, math.Inf(1), []float64{1, math.Inf(1), 3}},
		{"Hugging Face logs nan from then on", unfiltered, math.NaN(), []float64{1, math.NaN(), math.NaN()}},
		{"after inf too", unfiltered, math.Inf(-1), []float64{1, math.Inf(-1), math.NaN()}},
		{"unless it filters", semantics.HuggingFace, math.NaN(), []float64{1, 0, 3}},
	} {
		step := &trainertest.Step{Loss: func(micro int, _ []int) float64 { return []float64{1, c.bad, 3}[micro-1] }}
		tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1, Log: trainer.Every(1, trainer.Update), Semantics: c.rules, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := r.History[i]["loss"]; got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: logged loss %d is %g, want %g", c.claim, i+1, got, want)
			}
		}
	}
}
