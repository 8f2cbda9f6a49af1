package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// events records what the units of a model did since the last call of take.
type events struct{ list []string }

func (e *events) add(event string, unit int) { e.list = append(e.list, fmt.Sprint(event, " ", unit)) }

func (e *events) take() string {
	text := strings.Join(e.list, ", ")
	e.list = nil
	return text
}

// whole returns the largest number of units that were whole at once: a unit is whole from its
// gather until it has computed and, in a backward pass, its gradients are reduced.
func (e *events) whole() (most int) {
	now := 0
	for _, event := range e.list {
		switch kind, _, _ := strings.Cut(event, " "); kind {
		case "gather":
			now++
		case "free", "reduce", "drop":
			now--
		}
		most = max(most, now)
	}
	return most
}

func TestTheNextUnitIsGatheredWhileOneComputes(t *testing.T) {
	const layers = 3
	const unforeseen = "gather 0, compute 0, free 0, gather 1, compute 1, free 1, gather 2, compute 2, free 2"
	for _, world := range []int{2, 3} {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			m, err := newDeep(ctx, g, layers, 4)
			if err != nil {
				return err
			}
			p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.FullShard, Units: slices.Clone(m.units)})
			if err != nil {
				return err
			}
			defer p.Close()
			opt, err := p.Optimizer(optim.SGD{LR: 0.1}, nil)
			if err != nil {
				return err
			}
			var e events
			p.Trace(e.add)
			const backward = "gather 2, gather 1, compute 2, reduce 2, gather 0, compute 1, reduce 1, compute 0, reduce 0"
			for pass, forward := range []string{
				unforeseen + ", ", // the order is not known yet
				"gather 0, gather 1, compute 0, free 0, gather 2, compute 1, free 1, compute 2, free 2, ",
				"gather 0, gather 1, compute 0, free 0, gather 2, compute 1, free 1, compute 2, free 2, ",
			} {
				if err := step(ctx, p, m, opt, torch.Ones(2, 4)); err != nil {
					return err
				}
				if n := e.whole(); n > 2 {
					return fmt.Errorf("pass %d: %d units were whole at a time", pass, n)
				}
				if got := e.take(); got != forward+backward {
					return fmt.Errorf("pass %d:\n%s\nwant\n%s", pass, got, forward+backward)
				}
			}

			// An evaluation without gradients does not change the recorded order.
			torch.NoGrad(func() { m.forward(torch.Ones(1, 4)) })
			if got := e.take(); got != unforeseen {
				return fmt.Errorf("without gradients: %s, want %s", got, unforeseen)
			}

			// If a pass runs the units in a new order, what was gathered for the old order is
			// dropped; the next pass knows the new order.
			m.Layers[1], m.Layers[2], m.units[1], m.units[2] = m.Layers[2], m.Layers[1], m.units[2], m.units[1]
			for pass, want := range []string{
				"gather 0, gather 1, compute 0, free 0, drop 1, gather 2, compute 2, free 2, gather 1, compute 1, free 1, " +
					"gather 1, gather 2, compute 1, reduce 1, gather 0, compute 2, reduce 2, compute 0, reduce 0",
				"gather 0, gather 2, compute 0, free 0, gather 1, compute 2, free 2, compute 1, free 1, " +
					"gather 1, gather 2, compute 1, reduce 1, gather 0, compute 2, reduce 2, compute 0, reduce 0",
			} {
				if err := step(ctx, p, m, opt, torch.Ones(2, 4)); err != nil {
					return err
				}
				if got := e.take(); got != want {
					return fmt.Errorf("other order, pass %d:\n%s\nwant\n%s", pass, got, want)
				}
			}
			return nil
		}))
	}
}
