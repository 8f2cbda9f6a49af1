package accelerate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// What the pieces do in the course of a loop: two epochs of three batches in windows of two. The
// loop calls them for every batch; the optimizer and the schedule move at the end of a window, or
// of the loader, and ZeroGrad keeps the gradients until then.
func ExampleAccelerator_order() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	acc, err := accelerate.New(accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2}})
	if err != nil {
		log.Fatal(err)
	}
	model := nn.NewLinear(1, 1, nil)
	if err := acc.PrepareModel(model); err != nil {
		log.Fatal(err)
	}
	opt := acc.PrepareOptimizer(optim.NewSGD(nn.Params(model), optim.SGD{}), 0.1)
	train, err := accelerate.PrepareLoader(acc, points(6), collate, accelerate.LoaderOptions{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	valid, err := accelerate.PrepareLoader(acc, points(2), collate, accelerate.LoaderOptions{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	sched, err := acc.PrepareSchedule(opt, lr.Linear{}, 4)
	if err != nil {
		log.Fatal(err)
	}
	for epoch := range 2 {
		fmt.Println("epoch", epoch)
		for batch, err := range train.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			moves, rate := sched.Moves(), opt.Rate()
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
			fmt.Print("  accumulate, backward")
			if acc.SyncGradients() {
				fmt.Printf(" and sync_gradients: optimizer.step at rate %.3f", rate)
			}
			if sched.Moves() > moves {
				fmt.Printf(", scheduler.step %d, zero_grad", sched.Moves())
			}
			fmt.Println()
		}
		for batch, err := range valid.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			torch.NoGrad(func() {
				x, _ := columns(batch)
				seen := acc.GatherForMetrics(model.Forward(x))
				fmt.Println("  gather_for_metrics", seen[0].Shape())
			})
		}
		path, err := acc.SaveState(filepath.Join(dir, fmt.Sprint("epoch_", epoch)))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("  save_state", filepath.Base(path))
	}
	// Output:
	// epoch 0
	//   accumulate, backward
	//   accumulate, backward and sync_gradients: optimizer.step at rate 0.100, scheduler.step 1, zero_grad
	//   accumulate, backward and sync_gradients: optimizer.step at rate 0.075, scheduler.step 2, zero_grad
	//   gather_for_metrics [2 1]
	//   save_state epoch_0
	// epoch 1
	//   accumulate, backward
	//   accumulate, backward and sync_gradients: optimizer.step at rate 0.050, scheduler.step 3, zero_grad
	//   accumulate, backward and sync_gradients: optimizer.step at rate 0.025, scheduler.step 4, zero_grad
	//   gather_for_metrics [2 1]
	//   save_state epoch_1
}
