package data_test

import (
	"context"
	"testing"

	"github.com/gotrainer/gotrainer/data"
)

// BenchmarkLoaderBatch measures the loader's overhead for a batch of 32 samples that cost nothing.
func BenchmarkLoaderBatch(b *testing.B) {
	loader, err := data.NewLoader(data.Func(1<<40, func(i int) (int, error) { return i, nil }), batch,
		data.LoaderOptions{
			BatchSize: 32,
			Order:     some{b.N * 32},
		})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, err := range loader.Epoch(context.Background(), 0, 0) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// some is an order of the first samples only.
type some struct{ n int }

func (s some) Count(int) int          { return s.n }
func (s some) Indices(_, _ int) []int { return data.Sequential{}.Indices(0, s.n) }

func BenchmarkShuffled1M(b *testing.B) {
	for b.Loop() {
		data.Shuffled{Seed: 42}.Indices(0, 1_000_000)
	}
}
