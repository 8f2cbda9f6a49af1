package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// JoinGroup gives all processes the weights and buffers of the main one, and has the following runs
// average gradients and losses over them.
func (s *Step[S, B]) JoinGroup(ctx context.Context, g *dist.Group) error {
	parallel, err := ddp.New(ctx, g, s.task.Model(), ddp.Options{})
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	s.group, s.parallel = g, parallel
	return nil
}

// lastOfWindow tells whether gradients are averaged after a micro-batch: those before it run under
// no_sync.
func lastOfWindow(w trainer.Window) bool { return w.Index == w.Len-1 }

func (s *Step[S, B]) beforeForward(ctx context.Context, w trainer.Window) error {
	if s.parallel == nil {
		return nil
	}
	return s.parallel.BeforeForward(ctx, lastOfWindow(w))
}

func (s *Step[S, B]) averageGradients(ctx context.Context, w trainer.Window) error {
	if s.parallel == nil || !lastOfWindow(w) {
		return nil
	}
	return s.parallel.AverageGradients(ctx)
}

// averageLoss replaces the sum of the losses by the mean of the sums of all processes.
func (s *Step[S, B]) averageLoss(ctx context.Context) error {
	if s.parallel == nil {
		return nil
	}
	return ddp.AllReduce(ctx, s.group, dist.Mean, s.lossSum)
}

// randomState is what [Step.RandomState] returns, as JSON.
type randomState struct {
	Generators map[string][]byte `json:"generators"` // by device
	Order      []byte            `json:"order,omitempty"`
}

// RandomState is the state of the generators of this process.
func (s *Step[S, B]) RandomState() ([]byte, error) {
	r := randomState{Generators: map[string][]byte{}, Order: s.order.before}
	err := torch.Try(func() {
		for _, d := range s.devices() {
			r.Generators[d.String()] = torch.DefaultGenerator(d).State()
		}
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// SetRandomState goes on with what RandomState returned.
func (s *Step[S, B]) SetRandomState(state []byte) error {
	var r randomState
	if err := json.Unmarshal(state, &r); err != nil {
		return fmt.Errorf("engine: the random state of a process: %w", err)
	}
	for _, d := range s.devices() {
		if r.Generators[d.String()] == nil {
			return fmt.Errorf("engine: the random state of a process has no generator of %s: it was made on another "+
				"kind of device", d)
		}
	}
	return torch.Try(func() {
		for _, d := range s.devices() {
			torch.DefaultGenerator(d).SetState(r.Generators[d.String()])
		}
		s.order.before = r.Order
	})
}
