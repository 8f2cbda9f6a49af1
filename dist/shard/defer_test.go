package shard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// tower is a stack of layers of 64 KiB each with a head.
type tower struct {
	Layers []*nn.Linear `module:"layers"`
	Head   *nn.Linear   `module:"head"`
}

func (m *tower) RunLayers(func(i int, f func([]torch.Tensor) []torch.Tensor,
	in ...torch.Tensor) []torch.Tensor) (layers []any) {
	for _, l := range m.Layers {
		layers = append(layers, l)
	}
	return layers
}

func newTower() *tower {
	m := &tower{Head: nn.NewLinear(128, 128, nil)}
	for range 3 {
		m.Layers = append(m.Layers, nn.NewLinear(128, 128, nil))
	}
	return m
}

// With each strategy, a model created in nn.Defer has the same weights as one created directly.
func TestADeferredModelIsDrawnUnitByUnit(t *testing.T) {
	for _, world := range []int{1, 3} {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) (err error) {
			for _, s := range strategies {
				var want, got *tower
				var m *shard.Model
				torch.ForkRNG(func() { // this rank has its own generator
					torch.ManualSeed(3)
					want = newTower()
					torch.ManualSeed(3)
					nn.Defer(func() { got = newTower() })
					for _, p := range nn.Params(got) {
						if len(p.Tensor.Shape()) == 2 && p.Tensor.Device() != torch.Meta {
							err = fmt.Errorf("%s has memory before its unit is made", p.Name)
							return
						}
					}
					m, err = shard.NewLayered(ctx, g, got, s, 0, ddp.Options{})
				})
				if err != nil {
					return err
				}
				if err := m.Summon(ctx); err != nil {
					return err
				}
				params := nn.Params(got)
				for i, w := range nn.Params(want) {
					if !params[i].Tensor.Detach().Equal(w.Tensor.Detach()) {
						return fmt.Errorf("%s: %s has other weights than in one process", s, w.Name)
					}
				}
				m.Close()
			}
			return nil
		}))
	}
}

// While a model is being sharded, at most one unit has memory.
func TestUnitsOfADeferredModelWaitForTheirTurn(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) (err error) {
		torch.ForkRNG(func() {
			var m *tower
			nn.Defer(func() { m = newTower() })
			for i, l := range m.Layers {
				if _, err = shard.FullyShard(ctx, g, l); err != nil {
					return
				}
				for k, other := range m.Layers {
					if k <= i && other.Weight.Defined() || k > i && other.Weight.Device() != torch.Meta {
						err = fmt.Errorf("layer %d has memory when layer %d was sharded", k, i)
					}
				}
			}
		})
		return err
	}))
}
