package trainer_test

import (
	"context"
	"io"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func BenchmarkFitUpdate(b *testing.B) {
	// One operation is one update: the loop, the hooks and the loader around a step that does
	// almost nothing.
	t, err := trainer.New(&quietStep{}, trainer.Options{MaxSteps: max(1, b.N), BatchSize: 1, Progress: io.Discard,
		Log: trainer.Never, Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := t.Fit(context.Background(), trainertest.Samples(10000), nil); err != nil {
		b.Fatal(err)
	}
}

// quietStep does not record its calls, since that would dominate the benchmark.
type quietStep struct{ trainertest.Step }

func (*quietStep) Train(context.Context, []int, trainer.Window) error { return nil }
func (*quietStep) Update(context.Context, float64) (bool, error)      { return true, nil }
func (*quietStep) CountItems([]int) int64                             { return 0 }
