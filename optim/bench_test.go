package optim_test

import (
	"fmt"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// BenchmarkImplementations measures the overhead of a step for each implementation.
func BenchmarkImplementations(b *testing.B) {
	testenv.RequireTorch(b)
	for name, o := range map[string]optim.Builder{
		"AdamW/fused": optim.AdamW{}, "AdamW/for-loop": optim.AdamW{Implementation: optim.ForLoop},
		"AdamW/foreach": optim.AdamW{Implementation: optim.Foreach},
		"RMSprop":       optim.RMSprop{}, "NAdam": optim.NAdam{}, "Lion": optim.Lion{}, "LAMB": optim.LAMB{},
		"AdafactorHF": optim.AdafactorHF{},
	} {
		b.Run(name+"/60x10000", func(b *testing.B) {
			_, opt := manyParameters(b, o, 60, 10_000)
			opt.Step(1e-3)
			b.ReportAllocs()
			for b.Loop() {
				opt.Step(1e-3)
			}
		})
	}
}

// One update of 60 parameters with 10,000 elements each, on one thread. bench_test.py does the same
// in Python.
func BenchmarkStep(b *testing.B) {
	testenv.RequireTorch(b)
	for _, o := range []optim.Builder{optim.AdamW{}, optim.SGD{Momentum: 0.9}} {
		for _, size := range []int64{10_000, 1} {
			b.Run(fmt.Sprintf("%T/60x%d", o, size), func(b *testing.B) {
				_, opt := manyParameters(b, o, 60, size)
				opt.Step(1e-3)
				b.ReportAllocs()
				for b.Loop() {
					opt.Step(1e-3)
				}
			})
		}
	}
}

func BenchmarkClipGradNorm(b *testing.B) {
	testenv.RequireTorch(b)
	params, _ := manyParameters(b, optim.SGD{}, 60, 1)
	b.ReportAllocs()
	for b.Loop() {
		torch.Scope(func() { optim.ClipGradNorm(params, 1) })
	}
}
