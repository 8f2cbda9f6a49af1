package trainer_test

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestAfterANonFiniteLoss: Hugging Face's Trainer resets the sum of losses by subtracting it from
// itself, which leaves NaN if it is NaN or infinite.
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
		tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1,
			Log: trainer.Every(1, trainer.Update), Semantics: c.rules, Progress: io.Discard,
			NonFinite: trainer.IgnoreNonFinite})
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

func TestANonFiniteLossIsWarnedOfOnceAndShown(t *testing.T) {
	for _, c := range []struct {
		claim string
		o     trainer.Options
		want  string
	}{
		{"when it is logged", trainer.Options{Log: trainer.Every(1, trainer.Update)},
			"loss is NaN at update 2, and the run continues"},
		{"at the end, if nothing was logged before", trainer.Options{}, "train_loss is NaN at update 3, and the run " +
			"continues"},
	} {
		step := &trainertest.Step{Loss: func(micro int, _ []int) float64 {
			return []float64{1, math.NaN(), math.NaN()}[micro-1]
		}}
		var shown bytes.Buffer
		c.o.Epochs, c.o.BatchSize, c.o.Progress, c.o.NonFinite = 1, 1, &shown, trainer.IgnoreNonFinite
		tr, err := trainer.New[int, []int](step, c.o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], c.want) {
			t.Errorf("%s: warnings %q, want one that begins with %q", c.claim, r.Warnings, c.want)
		}
		if n := strings.Count(shown.String(), "warning    "+c.want); n != 1 {
			t.Errorf("%s: it was shown %d times:\n%s", c.claim, n, &shown)
		}
	}
}
