// Command mlp trains a small network to tell whether a point is inside a circle. It is a complete
// program with every step spelled out.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const usage = `Usage: mlp [-device auto|cpu|cuda|cuda:N]

Teaches a small network whether a point is inside a circle. It is made to be read and changed.

Flags:
`

func main() {
	run.Main(func(ctx context.Context) error {
		device := flag.String("device", "auto", "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
		if err := run.ParseFlags(flag.CommandLine, usage, os.Args[1:]); err != nil {
			return err
		}
		if flag.NArg() > 0 {
			return run.Usage(fmt.Errorf("%q is not a flag", flag.Arg(0)))
		}
		return train(ctx, *device)
	})
}

func train(ctx context.Context, name string) error {
	device, err := torch.ParseDevice(name)
	if err != nil {
		return run.Usage(err)
	}
	torch.ManualSeed(1)
	net := nn.Sequential{nn.NewLinear(2, 32, nil), nn.ReLU{}, nn.NewLinear(32, 2, nil)}
	step, err := engine.New(engine.Classify(net), engine.Options{Optimizer: optim.AdamW{LR: 0.02}, Device: device})
	if err != nil {
		return err
	}
	t, err := trainer.New(step, trainer.Options{Epochs: 10, BatchSize: 32})
	if err != nil {
		return err
	}
	result, err := t.Fit(ctx, points(1, 2000), points(2, 500))
	if err != nil {
		return err
	}
	fmt.Printf("accuracy on unseen points: %.3f\n", result.Best.Metrics["eval_accuracy"])
	return nil
}

// points returns n random points of a square, labeled by whether they are inside the circle. Point
// i depends only on the seed and i.
func points(seed uint64, n int) data.Dataset[data.Example] {
	return data.Func(n, func(i int) (data.Example, error) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		x, y := 2*r.Float32()-1, 2*r.Float32()-1
		point := data.Example{Features: []float32{x, y}}
		if x*x+y*y < 0.5 {
			point.Class = 1
		}
		return point, nil
	})
}
