// Command ddp_bench is one of the processes that bench.py starts: it measures all-reduces or
// updates of a model, and rank 0 prints a line of JSON for each.
//
//	python scripts/ddp_bench/bench.py
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("want one argument: all_reduce, mlp or bert_small; bench.py starts this program")
	}
	if err := measure(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context, what string) (err error) {
	torch.SetThreads(1)
	g, err := dist.Init(ctx, dist.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	failed := torch.Try(func() {
		switch what {
		case "all_reduce":
			err = allReduce(ctx, g)
		case "mlp":
			m := &mlp{A: nn.NewLinear(784, 1024, nil), B: nn.NewLinear(1024, 1024, nil), C: nn.NewLinear(1024, 10, nil)}
			x, y := torch.Randn(64, 784), torch.RandInt(0, 10, 64)
			err = update(ctx, g, what, m, func() torch.Tensor {
				return functional.CrossEntropy(m.Forward(x), y)
			})
		case "bert_small":
			err = bertSmall(ctx, g, what)
		default:
			err = fmt.Errorf("there is no workload %q; want all_reduce, mlp or bert_small", what)
		}
	})
	return errors.Join(err, failed)
}

// allReduce measures all-reduces of tensors from 1 KiB to 256 MiB.
func allReduce(ctx context.Context, g *dist.Group) error {
	for size := int64(1 << 10); size <= 256<<20; size *= 4 {
		n := int(max(5, min(300, (64<<20)/size)))
		x := torch.Ones(size / 4)
		var times []time.Duration
		before := processor()
		for i := range n + 3 {
			if i == 3 {
				before = processor()
			}
			begin := time.Now()
			if err := ddp.AllReduce(ctx, g, dist.Sum, x); err != nil {
				return err
			}
			times = append(times, time.Since(begin))
			x.Fill_(1)
		}
		report(g, "all_reduce "+strconv.FormatInt(size>>10, 10)+" KiB", times[3:], processor()-before)
	}
	return nil
}

type mlp struct {
	A *nn.Linear `module:"a"`
	B *nn.Linear `module:"b"`
	C *nn.Linear `module:"c"`
}

func (m *mlp) Forward(x torch.Tensor) torch.Tensor {
	return m.C.Forward(m.B.Forward(m.A.Forward(x).ReLU()).ReLU())
}

func bertSmall(ctx context.Context, g *dist.Group, what string) error {
	m, err := bert.NewClassifier(bert.Config{HiddenSize: 256, NumLayers: 4, NumHeads: 4, IntermediateSize: 1024})
	if err != nil {
		return err
	}
	nn.SetTraining(m, true)
	ids, y := torch.RandInt(1, 30000, 8, 64), torch.RandInt(0, 2, 8)
	return update(ctx, g, what, m, func() torch.Tensor {
		return functional.CrossEntropy(m.Forward(ids, torch.Tensor{}, torch.Tensor{}), y)
	})
}

// update measures AdamW updates of a model whose gradients are averaged over all processes.
func update(ctx context.Context, g *dist.Group, what string, model any, loss func() torch.Tensor) error {
	m, err := ddp.New(ctx, g, model, ddp.Options{})
	if err != nil {
		return err
	}
	params := nn.Params(model)
	opt := optim.NewAdamW(params, optim.AdamW{})
	ts := make([]torch.Tensor, len(params))
	for i, p := range params {
		ts[i] = p.Tensor
	}
	list := torch.NewList(ts...)
	const warmup, updates = 5, 40
	var times []time.Duration
	var before time.Duration
	for i := range warmup + updates {
		if i == warmup {
			before = processor()
		}
		begin := time.Now()
		torch.Scope(func() {
			if err = m.BeforeForward(ctx, true); err != nil {
				return
			}
			l := loss()
			if err = m.Backward(ctx, l.Backward, l); err != nil {
				return
			}
			opt.Step(1e-4)
			list.ZeroGrad(false)
		})
		if err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	report(g, what, times[warmup:], processor()-before)
	return nil
}

func report(g *dist.Group, row string, times []time.Duration, cpu time.Duration) {
	if !g.Main() {
		return
	}
	slices.Sort(times)
	line, err := json.Marshal(map[string]any{"row": row, "ms": 1e3 * times[len(times)/2].Seconds(),
		"cpu_ms": 1e3 * cpu.Seconds() / float64(len(times)), "peak_rss_mb": peak()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

// processor returns the CPU time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the peak memory of this process in MB.
func peak() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	if err != nil {
		return 0
	}
	return kib * 1024 / 1e6
}
