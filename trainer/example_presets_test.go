package trainer_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// when notes after which batch of the run an update happened, and how long the run was planned.
type when struct {
	batches int
	updates []string
	planned int
}

func (w *when) AfterBackward(*trainer.Run) error { w.batches++; return nil }
func (w *when) AfterUpdate(r *trainer.Run) error {
	w.updates = append(w.updates, fmt.Sprint(w.batches))
	w.planned = r.MaxSteps
	return nil
}

// Ten batches in an epoch, windows of four, two epochs: when four trainers update their weights,
// and how often.
func ExampleTrainer_Fit_presets() {
	fmt.Println("preset                   updates  after batch          planned")
	for _, rules := range []semantics.Rules{
		semantics.HuggingFace, semantics.Hezar, semantics.PytorchAccelerated, semantics.PyMarlin,
	} {
		w := new(when)
		t, err := trainer.New[int, []int](new(splitStep), trainer.Options{
			Epochs: 2, BatchSize: 1, Accumulate: 4, Order: data.Sequential{}, Semantics: rules, Callbacks: []any{w},
			Progress: io.Discard,
		})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := t.Fit(context.Background(), trainertest.Samples(10), nil); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-24s %-8d %-20s %d\n", rules.Name, len(w.updates), strings.Join(w.updates, " "), w.planned)
	}
	// Output:
	// preset                   updates  after batch          planned
	// huggingface 5.17         6        4 8 10 14 18 20      6
	// hezar 1.0                6        4 8 10 14 18 20      20
	// pytorch-accelerated 0.1  6        4 8 10 14 18 20      6
	// pymarlin 0.3             5        4 8 12 16 20         6
}

// splitStep is the recording step with clipping in a call of its own, which pytorch-accelerated
// needs.
type splitStep struct {
	trainertest.Step
	clips int
}

func (s *splitStep) Clip(context.Context) error { s.clips++; return nil }
