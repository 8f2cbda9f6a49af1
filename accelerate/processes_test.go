package accelerate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// pair is Net of testdata/two_processes.py.
type pair struct {
	nn.Mode

	First     *nn.Linear      `module:"first"`
	Norm      *nn.BatchNorm1d `module:"norm"`
	Second    *nn.Linear      `module:"second"`
	Unused    *nn.Linear      `module:"unused"`
	Sometimes torch.Tensor    `param:"sometimes"`
}

func newPair() *pair {
	return &pair{
		First: nn.NewLinear(5, 7, nil), Norm: nn.NewBatchNorm1d(7, nil), Second: nn.NewLinear(7, 3, nil),
		Unused:    nn.NewLinear(2, 2, nil),
		Sometimes: nn.Parameter(torch.Ones(3)),
	}
}

func (p *pair) forward(x torch.Tensor, rank int) torch.Tensor {
	y := p.Second.Forward(p.Norm.Forward(p.First.Forward(x)).ReLU())
	if rank == 1 {
		y = y.Mul(p.Sometimes)
	}
	return y
}

// row is a sample: five numbers and a class.
type row struct {
	x     [5]float32
	class int64
}

func rows() data.Dataset[row] {
	var x []float32
	torch.Scope(func() {
		x = torch.Values[float32](torch.TensorOptions{DType: torch.Float32}.Arange(0, 22*5, 1).MulScalar(0.7).Sin())
	})
	return data.Func(22, func(i int) (row, error) { return row{[5]float32(x[5*i : 5*i+5]), int64(i % 3)}, nil })
}

func tensorsOf(b []row) (x, y torch.Tensor) {
	var values []float32
	var classes []int64
	for _, r := range b {
		values, classes = append(values, r.x[:]...), append(classes, r.class)
	}
	return torch.From(values, int64(len(b)), 5), torch.From(classes, int64(len(b)))
}

func collateRows(b []row) ([]row, error) { return b, nil }

// oneOfTwo is the main function of a started process: it trains as the script does and writes what
// it saw.
func oneOfTwo(role, dir string) error {
	ctx := context.Background()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	acc, err := accelerate.New(accelerate.Options{Group: g, Accumulation: accelerate.Accumulation{Steps: 2},
		Distributed: ddp.Options{FindUnusedParameters: true}})
	if err != nil {
		return err
	}
	seedable := role != "drawn"
	seed := uint64(7)
	if !seedable {
		seed += uint64(g.Rank())
	}
	if err := accelerate.SetSeed(seed); err != nil {
		return err
	}
	model := newPair()
	opt := acc.PrepareOptimizer(optim.NewAdamW(nn.Params(model), optim.AdamW{Implementation: optim.ForLoop}), 0.05)
	if err := acc.PrepareModel(model); err != nil {
		return err
	}
	train, err := accelerate.PrepareLoader(acc, rows(), collateRows, accelerate.LoaderOptions{BatchSize: 4,
		Shuffle: true, Seedable: seedable})
	if err != nil {
		return err
	}
	sched, err := acc.PrepareSchedule(opt,
		lr.LambdaLR{Lambda: func(n int) float64 { return math.Max(0, 1-float64(n)/8) }}, 8)
	if err != nil {
		return err
	}
	var losses, seen []float32
	var rates []float64
	batches := 0
	for epoch := range 2 {
		train.SetEpoch(epoch)
		for b, err := range train.Batches(ctx) {
			if err != nil {
				return err
			}
			if role == "dies" && g.Rank() == 1 && batches == 3 {
				os.Exit(9)
			}
			// other weights and random numbers, which the state must correct
			if role == "resume" && epoch == 1 && batches == train.Len() {
				path, err := acc.SaveState(filepath.Join(dir, "state"))
				if err != nil {
					return err
				}
				torch.ManualSeed(99)
				torch.NoGrad(func() { model.First.Weight.Zero_() })
				if err := acc.LoadState(path); err != nil {
					return err
				}
			}
			batches++
			if err := acc.Accumulate(func() error {
				x, y := tensorsOf(b)
				loss := model.forward(x, g.Rank()).CrossEntropyLoss(y, torch.Tensor{}, torch.ReductionMean, -100, 0)
				losses = append(losses, float32(loss.Item()))
				acc.Backward(loss)
				if acc.SyncGradients() {
					if _, err := acc.ClipGradNorm(nn.Params(model), 1); err != nil {
						return err
					}
				}
				if err := errors.Join(opt.Step(), sched.Step()); err != nil {
					return err
				}
				opt.ZeroGrad()
				return nil
			}); err != nil {
				return err
			}
			rates = append(rates, opt.Rate())
			for _, r := range b {
				seen = append(seen, r.x[0])
			}
		}
	}
	evaluation, err := accelerate.PrepareLoader(acc, rows(), collateRows, accelerate.LoaderOptions{BatchSize: 4})
	if err != nil {
		return err
	}
	var gathered []float32
	for b, err := range evaluation.Batches(ctx) {
		if err != nil {
			return err
		}
		if err := torch.Try(func() {
			torch.Scope(func() {
				x, _ := tensorsOf(b)
				gathered = append(gathered, torch.Values[float32](acc.GatherForMetrics(x.Select(1, 0))[0])...)
			})
		}); err != nil {
			return err
		}
	}
	out := append(nn.StateDict(model),
		torch.Named{Name: "losses", Tensor: torch.From(losses, int64(len(losses)))}, torch.Named{Name: "rates",
			Tensor: torch.From(rates, int64(len(rates)))},
		torch.Named{Name: "seen", Tensor: torch.From(seen, int64(len(seen)))}, torch.Named{Name: "gathered",
			Tensor: torch.From(gathered, int64(len(gathered)))})
	entries, err := tensorio.Entries(out)
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(filepath.Join(dir, strconv.Itoa(g.Rank())), entries, nil); err != nil {
		return err
	}
	return acc.WaitForEveryone()
}

// startTwo starts two processes, and returns what each printed and its exit code.
func startTwo(t *testing.T, role, dir string) (output [2]string, code [2]int) {
	t.Helper()
	testenv.RequireTorch(t)
	for rank, p := range ranktest.Run(t, 2, 2*time.Minute, "ACCELERATE_TEST_ROLE="+role, "ACCELERATE_TEST_DIR="+dir) {
		output[rank], code[rank] = p.Output, p.Code
	}
	return output, code
}

func TestTwoProcessesEqualAccelerateWithGloo(t *testing.T) {
	for role, recorded := range map[string]string{"seedable": "seedable", "drawn": "drawn", "resume": "seedable"} {
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			output, code := startTwo(t, role, dir)
			if code != [2]int{} {
				t.Fatalf("exit codes %v: %q", code, output)
			}
			want := golden.Load(t, "testdata/two_processes.safetensors")
			for rank := range 2 {
				got := golden.Load(t, filepath.Join(dir, strconv.Itoa(rank)))
				for _, name := range []string{
					"seen", "losses", "rates", "gathered", "first.weight", "first.bias", "norm.weight", "norm.bias",
					"norm.running_mean", "norm.running_var",
					"norm.num_batches_tracked", "second.weight", "second.bias", "unused.weight", "unused.bias",
					"sometimes",
				} {
					// Mathematically, the bias before the norm has no gradient: Adam moves it, and
					// the running mean after it, according to the signs of rounding errors.
					if (name == "first.bias" || name == "norm.running_mean") && !testenv.SameBits() {
						continue
					}
					g, w := got.Tensor(name), want.Tensor(fmt.Sprintf("%s.%d.%s", recorded, rank, name))
					what := fmt.Sprintf("%s of rank %d", name, rank)
					golden.Recorded(t, what, g, w)
				}
			}
		})
	}
}

func TestTheDeathOfAProcessEndsTheOther(t *testing.T) {
	output, code := startTwo(t, "dies", t.TempDir())
	if code != [2]int{3, 9} || !strings.Contains(output[0], "rank 1: the connection is gone") {
		t.Errorf("exit codes %v, want 3 and 9; rank 0 said %q", code, output[0])
	}
}

func TestAProcessOfSeveralWithoutAGroupIsRefused(t *testing.T) {
	for _, variable := range []string{"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
		"MV2_COMM_WORLD_SIZE",
		"PMI_SIZE"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "2")
			_, err := accelerate.New(accelerate.Options{})
			if err == nil || !strings.Contains(err.Error(), "("+variable+"=2), but Options.Group is nil") {
				t.Error(err)
			}
		})
	}
}
