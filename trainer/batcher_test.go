package trainer_test

import (
	"io"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

var lengths = []int{50, 1, 1, 1, 1, 1, 50, 1}

func TestARunOverBatchesOfUnequalSize(t *testing.T) {
	var sizes []int
	step := &trainertest.Step{}
	tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 2, BatchSize: 4, Accumulate: 2,
		Progress: io.Discard, Order: data.BatchRebalance{Lengths: lengths, BatchSize: 4, Accumulate: 2},
		Callbacks: []any{batchSizes{&sizes}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(8), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.GlobalStep != 2 || len(sizes) != 4 || sizes[0] == sizes[1] || sizes[0]+sizes[1] != 8 ||
		sizes[2]+sizes[3] != 8 {
		t.Errorf("%d updates of batches with %v samples, want 2 of two unequal batches with 8 samples each",
			r.GlobalStep, sizes)
	}
}

// batchSizes records how many samples each batch has.
type batchSizes struct{ sizes *[]int }

func (b batchSizes) BatchBegin(r *trainer.Run) error {
	*b.sizes = append(*b.sizes, len(r.Batch().([]int)))
	return nil
}

func TestAnOrderThatMakesBatchesFitsTheOptions(t *testing.T) {
	for _, c := range []struct {
		claim string
		o     trainer.Options
		want  string
	}{
		{"its window is the trainer's", trainer.Options{Accumulate: 3, Order: data.BatchRebalance{Lengths: lengths,
			BatchSize: 4, Accumulate: 2}}, "Options.Accumulate is 3: want 2"},
		{"its batches cannot be made smaller", trainer.Options{AutoFindBatchSize: true,
			Order: data.BatchRebalance{Lengths: lengths, BatchSize: 4}},
			"Options.AutoFindBatchSize is true: want false"},
	} {
		if _, err := trainer.New[int, []int](&trainertest.Step{}, c.o); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s: %v, want %q", c.claim, err, c.want)
		}
	}
}
