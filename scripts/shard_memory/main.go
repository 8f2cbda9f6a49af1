// Command shard_memory is one of the processes that train an MLP whose layers are units of
// dist/shard. It prints its peak memory:
//
//	export GOTRAINER_MALLOC=trim MALLOC_MMAP_THRESHOLD_=1048576
//	go build -o /tmp/shard_memory ./scripts/shard_memory
//	for n in 1 2 4; do gotrainer launch -n $n /tmp/shard_memory; done
//
// The model is created in nn.Defer, or with -whole all at once. -layers makes it deeper.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

const (
	width = 1024 // layers of 4.2 MB, 24 of them: 101 MB of parameters, 403 with gradients and moments
	batch = 32
)

var (
	layers = flag.Int("layers", 24, "layers, each a unit of 4.2 MB of parameters")
	whole  = flag.Bool("whole", false, "each process makes the whole model before it is shared out")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := measure(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func measure(ctx context.Context) (err error) {
	torch.SetThreads(1)
	g, err := dist.Init(ctx, dist.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	failed := torch.Try(func() { err = train(ctx, g) })
	return errors.Join(err, failed)
}

func train(ctx context.Context, g *dist.Group) error {
	torch.Ones(2, 2).Free() // loads libtorch
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets VmHWM
		return err
	}
	before := status("VmRSS")
	var net *mlp
	if *whole {
		net = newMLP()
	} else {
		nn.Defer(func() { net = newMLP() })
	}
	m, err := shard.NewLayered(ctx, g, net, shard.FullShard, 0, ddp.Options{})
	if err != nil {
		return err
	}
	opt, err := m.Optimizer(optim.AdamW{}, nil)
	if err != nil {
		return err
	}
	built := status("VmHWM")
	for range 3 {
		torch.Scope(func() { err = update(ctx, m, opt, net) })
		if err != nil {
			return err
		}
	}
	held := int64(0)
	for _, p := range m.Pieces() {
		held += p.Tensor.Numel() * 4
	}
	fmt.Printf("rank %d of %d: %d MB of parameters, peak %d MB, of building the model %d MB\n", g.Rank(), g.World(),
		held/1e6, (status("VmHWM")-before)/1e6, (built-before)/1e6)
	return nil
}

// mlp is a stack of linear layers, each a unit.
type mlp struct {
	Layers []*nn.Linear `module:"layers"`

	run func(i int, f func([]torch.Tensor) []torch.Tensor, in ...torch.Tensor) []torch.Tensor
}

func newMLP() *mlp {
	m := &mlp{}
	for range *layers {
		m.Layers = append(m.Layers, nn.NewLinear(width, width, nil))
	}
	return m
}

// RunLayers implements shard.LayerRunner.
func (m *mlp) RunLayers(run func(i int, f func([]torch.Tensor) []torch.Tensor,
	in ...torch.Tensor) []torch.Tensor) (layers []any) {
	m.run = run
	for _, l := range m.Layers {
		layers = append(layers, l)
	}
	return layers
}

func update(ctx context.Context, m *shard.Model, opt optim.Optimizer, net *mlp) error {
	if err := m.BeforeForward(ctx, true); err != nil {
		return err
	}
	x := torch.Randn(batch, width)
	for i, l := range net.Layers {
		x = net.run(i, func(in []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{l.Forward(in[0]).ReLU()}
		}, x)[0]
	}
	loss := x.Square().Mean(torch.DefaultDType)
	if err := m.Backward(ctx, loss.Backward, loss); err != nil {
		return err
	}
	if err := m.Step(ctx, opt, 1e-3); err != nil {
		return err
	}
	m.ZeroGrad()
	return nil
}

// status reads a field of /proc/self/status in kB, or returns 0 if there is none.
func status(name string) (kb int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0
			}
		}
	}
	return kb << 10
}
