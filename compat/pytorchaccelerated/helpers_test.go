package pytorchaccelerated_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	if dir := os.Getenv(killDir); dir != "" {
		os.Exit(runToBeKilled(dir))
	}
	if run := os.Getenv(rankRun); run != "" {
		if err := oneOfSeveral(run); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}

type (
	trainer = pa.Trainer[pa.Sample, pa.Batch]
	options = pa.Options[pa.Sample, pa.Batch]
	train   = pa.TrainOptions[pa.Sample, pa.Batch]
)

// line returns n points of y = 2x + 1.
func line(n int) data.Dataset[pa.Sample] {
	return data.Func(n, func(i int) (pa.Sample, error) {
		x := float32(i%5) / 4
		return pa.Sample{Inputs: []float32{x}, Targets: []float32{2*x + 1}}, nil
	})
}

func mse(outputs, targets torch.Tensor) torch.Tensor {
	return functional.MSELoss(outputs, targets, functional.Mean)
}

// zeroLine returns y = 0x + 0.
func zeroLine() *nn.Linear {
	m := nn.NewLinear(1, 1, nil)
	torch.NoGrad(func() {
		m.Weight.Zero_()
		m.Bias.Zero_()
	})
	return m
}

// quiet returns options for a Trainer that prints nothing and has only these callbacks.
func quiet(callbacks ...any) options {
	return options{Callbacks: append([]any{}, callbacks...), Output: io.Discard, Progress: io.Discard}
}

// lineTrainer returns a Trainer that fits a line with plain gradient descent.
func lineTrainer(o options) *trainer {
	t, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, o)
	if err != nil {
		panic(err)
	}
	return t
}

// run trains on 8 points in batches of 2, evaluating on 5.
func run(t *trainer, o train) error {
	if o.NumEpochs == 0 && o.MaxNumTrainSteps == 0 {
		o.NumEpochs = 2
	}
	o.PerDeviceBatchSize = 2
	if o.EvalDataset == nil {
		o.EvalDataset = line(5)
	}
	return t.Train(context.Background(), line(8), o)
}

func ctx() context.Context { return context.Background() }

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}
