package lr_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// A rate is computed once per update, so its cost must be negligible compared to that of an update.
func BenchmarkRate(b *testing.B) {
	for name, s := range map[string]lr.Schedule{
		"linear": lr.Linear{Warmup: 100}, "cosine": lr.Cosine{Warmup: 100}, "OneCycleLR": lr.OneCycleLR{},
		"CosineAnnealingLR": lr.CosineAnnealingLR{}, "timm poly": lr.TimmPoly{},
	} {
		b.Run(name, func(b *testing.B) {
			rate, update := s.Plan(0.1, 10_000), 0
			b.ReportAllocs()
			for b.Loop() {
				rate(update)
				update = (update + 1) % 10_000
			}
		})
	}
}
