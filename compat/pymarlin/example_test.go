package pymarlin_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// Parity learns whether a number is even from its binary digits.
type Parity struct {
	pymarlin.StatsHolder
	Hidden *nn.Linear `module:"hidden"`
	Out    *nn.Linear `module:"out"`
}

// Bits is a batch of numbers.
type Bits struct {
	X []float32
	Y []int64
}

func bitsOf(numbers []int) (Bits, error) {
	var b Bits
	for _, n := range numbers {
		for place := range 4 {
			b.X = append(b.X, float32(n>>place&1))
		}
		b.Y = append(b.Y, int64(n%2))
	}
	return b, nil
}

// OptimizersSchedulers is get_optimizers_schedulers.
func (p *Parity) OptimizersSchedulers(steps, epochs int) ([]*pymarlin.Optimizer, []pymarlin.Scheduler, error) {
	adam, err := pymarlin.NewOptimizer(optim.AdamW{LR: 0.01}, nn.Params(p))
	if err != nil {
		return nil, nil, err
	}
	cycle, err := pymarlin.NewScheduler(adam, lr.OneCycleLR{MaxLR: 0.1}, steps*epochs)
	return []*pymarlin.Optimizer{adam}, []pymarlin.Scheduler{cycle}, err
}

func (p *Parity) loader(n int, s pymarlin.Sampler, batchSize int) (pymarlin.Dataloader[Bits], error) {
	numbers := data.Func(n, func(i int) (int, error) { return i, nil })
	return pymarlin.NewDataloader(numbers, bitsOf, pymarlin.DataloaderOptions{BatchSize: batchSize, Sampler: s})
}

// TrainDataloader is get_train_dataloader.
func (p *Parity) TrainDataloader(s pymarlin.Sampler, batchSize int) (pymarlin.Dataloader[Bits], error) {
	return p.loader(16, s, batchSize)
}

// ValDataloaders is get_val_dataloaders with a dict of two sets.
func (p *Parity) ValDataloaders(s pymarlin.Sampler, batchSize int) (pymarlin.Dataloaders[Bits], error) {
	few, err := p.loader(4, s, batchSize)
	if err != nil {
		return nil, err
	}
	all, err := p.loader(16, s, batchSize)
	return pymarlin.Dataloaders[Bits]{{Key: "few", Loader: few}, {Key: "all", Loader: all}}, err
}

func (p *Parity) forward(b Bits, d torch.Device) (logits, labels torch.Tensor) {
	n := int64(len(b.Y))
	x := torch.From(b.X, n, 4).ToDevice(d)
	return p.Out.Forward(p.Hidden.Forward(x).Tanh()), torch.From(b.Y, n).ToDevice(d)
}

// TrainStep is train_step.
func (p *Parity) TrainStep(_ int, b Bits, d torch.Device) (pymarlin.Outputs, error) {
	logits, labels := p.forward(b, d)
	return pymarlin.Tensors(functional.CrossEntropy(logits, labels)), nil
}

// ValStep is val_step.
func (p *Parity) ValStep(_ int, b Bits, d torch.Device) (pymarlin.Outputs, error) {
	logits, labels := p.forward(b, d)
	return pymarlin.Tensors(logits.ArgMax(-1, false), labels), nil
}

// OnEndValEpoch is on_end_val_epoch.
func (p *Parity) OnEndValEpoch(_ int, outputs pymarlin.Collected, key string) error {
	right := outputs.Tensors[0].Eq(outputs.Tensors[1]).ToDType(torch.Float32).Mean(torch.DefaultDType)
	p.Stats().UpdateTensor("accuracy/"+key, right, false)
	return nil
}

// A whole run: 10 epochs, with 8 numbers per update and 4 per forward pass.
func ExampleNew() {
	torch.ManualSeed(1)
	module := &Parity{Hidden: nn.NewLinear(4, 8, nil), Out: nn.NewLinear(8, 2, nil)}
	stdout, err := pymarlin.NewStdout(lastLines{os.Stdout}, pymarlin.WriterInitArguments{})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := pymarlin.New(module, pymarlin.TrainerArguments{
		Epochs: 10, TrainBatchSize: 8, GPUBatchSizeLimit: 4, ValBatchSize: 16, NoGPU: true,
		CheckpointerArgs: pymarlin.CheckpointerArguments{NoCheckpoint: true},
		Writers:          []string{}, CustomWriters: []pymarlin.Writer{stdout},
	}, &pymarlin.Options[Bits]{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := t.Train(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.GlobalStepsFinished(), "updates of", t.TotalStepsFinished(), "batches")
	// Output:
	// step = 20, accuracy/few : 1
	// step = 20, accuracy/all : 1
	// 20 updates of 40 batches
}

// lastLines passes on only the accuracy of the last update.
type lastLines struct{ out io.Writer }

func (l lastLines) Write(line []byte) (int, error) {
	if string(line[:min(len(line), 18)]) == "step = 20, accurac" {
		return l.out.Write(line)
	}
	return len(line), nil
}

// A checkpoint is a file that torch.load can read, or a safetensors file if its name ends in
// .safetensors.
func ExampleWriteState() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "extra.pt")
	err = pymarlin.WriteState(path, pymarlin.State{"epoch": 3, "weights": torch.From([]float32{1, 2}, 2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := pymarlin.ReadState(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s["epoch"], torch.Values[float32](s["weights"].(torch.Tensor)))
	// Output: 3 [1 2]
}

// The methods that a subclass of PyMarlin's SingleProcess would override are fields: here gradients
// are counted instead of clipped.
func ExampleSingleProcess() {
	torch.ManualSeed(1)
	module := &Parity{Hidden: nn.NewLinear(4, 8, nil), Out: nn.NewLinear(8, 2, nil)}
	updates := 0
	backend := &pymarlin.SingleProcess[Bits]{ClipGradients: func() error { updates++; return nil }}
	t, err := pymarlin.New(module, pymarlin.TrainerArguments{TrainBatchSize: 4, Writers: []string{}, NoGPU: true,
		CheckpointerArgs: pymarlin.CheckpointerArguments{NoCheckpoint: true}},
		&pymarlin.Options[Bits]{Backend: backend, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Train(context.Background()), updates)
	// Output: <nil> 4
}
