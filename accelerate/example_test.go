package accelerate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// The loop of the Hugging Face course with Accelerate: y = 2x + 1 is learned from batches of two
// points, two of them behind each update.
func Example() {
	ctx, epochs := context.Background(), 60
	acc, err := accelerate.New(accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2}})
	if err != nil {
		log.Fatal(err)
	}
	if err := accelerate.SetSeed(42); err != nil {
		log.Fatal(err)
	}
	model := nn.NewLinear(1, 1, nil)
	if err := acc.PrepareModel(model); err != nil {
		log.Fatal(err)
	}
	opt := acc.PrepareOptimizer(optim.NewSGD(nn.Params(model), optim.SGD{}), 0.8)
	train, err := accelerate.PrepareLoader(acc, points(10), collate, accelerate.LoaderOptions{BatchSize: 2,
		Shuffle: true})
	if err != nil {
		log.Fatal(err)
	}
	sched, err := acc.PrepareSchedule(opt, lr.Linear{}, epochs*3) // five batches make three updates
	if err != nil {
		log.Fatal(err)
	}
	for range epochs {
		for batch, err := range train.Batches(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			err = acc.Accumulate(func() error {
				x, y := columns(batch)
				acc.Backward(model.Forward(x).MSELoss(y, torch.ReductionMean))
				if err := opt.Step(); err != nil {
					return err
				}
				if err := sched.Step(); err != nil {
					return err
				}
				opt.ZeroGrad()
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Printf("y = %.1f x + %.1f after %d updates\n", model.Weight.Item(), model.Bias.Item(), sched.Moves())
	// Output: y = 2.0 x + 1.0 after 180 updates
}

// A run that was interrupted continues from its saved state: the rest of the pass first, in the
// order that it would have had.
func ExampleSkipFirstBatches() {
	acc, err := accelerate.New(accelerate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	seed := uint64(42)
	train, err := accelerate.PrepareLoader(acc, points(8), collate, accelerate.LoaderOptions{BatchSize: 2,
		Shuffle: true, Seedable: true, Seed: &seed})
	if err != nil {
		log.Fatal(err)
	}
	const done = 7 // batches before the state was saved
	for epoch := done / train.Len(); epoch < 3; epoch++ {
		active := train
		if epoch == done/train.Len() {
			active = accelerate.SkipFirstBatches(train, done%train.Len())
		}
		active.SetEpoch(epoch)
		fmt.Printf("pass %d: %d batches\n", epoch, active.Len())
	}
	// Output:
	// pass 1: 1 batches
	// pass 2: 4 batches
}

// columns makes tensors of points.
func columns(batch [][2]float32) (x, y torch.Tensor) {
	var xs, ys []float32
	for _, p := range batch {
		xs, ys = append(xs, p[0]), append(ys, p[1])
	}
	n := int64(len(batch))
	return torch.From(xs, n, 1), torch.From(ys, n, 1)
}
