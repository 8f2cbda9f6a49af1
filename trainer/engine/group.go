package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// parallel is a model that several processes train together: a ddp.Model or a shard.Model.
type parallel interface {
	BeforeForward(ctx context.Context, sync bool) error
	Backward(ctx context.Context, backward func(), losses ...torch.Tensor) error
	Close()
}

// JoinGroup gives all processes the weights and buffers of the main one. In the runs that follow,
// gradients and losses are averaged over the processes.
func (s *core) JoinGroup(ctx context.Context, g *dist.Group) error {
	if err := s.validateGroup(g.World()); err != nil {
		return run.Usage(err) // exit code 2, like that of an option that New refuses
	}
	if s.options.Sharding != 0 {
		return s.share(ctx, g)
	}
	if s.parallel != nil {
		s.parallel.Close()
	}
	parallel, err := ddp.New(ctx, g, s.task.Model(), s.distributed())
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	s.group, s.parallel = g, parallel
	return nil
}

// validateGroup refuses options that do not work with so many processes.
func (s *core) validateGroup(world int) error {
	if !s.clipped() {
		return fmt.Errorf("engine: %T updates each parameter during the backward pass, before its gradient is averaged "+
			"over %d processes: want another optimizer, or one process", s.options.Optimizer, world)
	}
	if v, ok := s.task.given.(GroupValidator); ok {
		if err := v.ValidateGroup(world); err != nil {
			return err
		}
	}
	if is[StateOwner](s.task.given) && s.options.Sharding != 0 {
		return fmt.Errorf("engine: %T has a state of its own (engine.StateOwner), which sharded checkpoints do not "+
			"hold, and Options.Sharding is %v; leave it out", s.task.given, s.options.Sharding)
	}
	return s.validateLayerdrop(world)
}

// distributed returns Options.Distributed. Its default is that of transformers' Trainer: unused
// parameters are searched for unless layers are recomputed in the backward pass.
func (s *core) distributed() ddp.Options {
	if s.options.Distributed != nil {
		return *s.options.Distributed
	}
	return ddp.Options{FindUnusedParameters: !s.options.GradientCheckpointing, BucketCapMB: 25}
}

// lastOfWindow reports whether gradients are averaged after a micro-batch. Earlier micro-batches of
// a window run under no_sync.
func lastOfWindow(w trainer.Window) bool { return w.Index == w.Len-1 }

func (s *core) beforeForward(ctx context.Context, w trainer.Window) error {
	if s.parallel == nil {
		return nil
	}
	s.backwards = 0
	return s.parallel.BeforeForward(ctx, lastOfWindow(w))
}

// propagate runs the backward pass of a loss. With several processes it also averages the
// gradients.
func (s *core) propagate(ctx context.Context, loss torch.Tensor) {
	if s.parallel == nil {
		loss.Backward()
		return
	}
	s.backwards++
	s.must("Backward", s.unitless(s.parallel.Backward(ctx, loss.Backward, loss)))
}

// unitless explains the error of a backward pass of a model under FullShard with checkpointed layers
// that are no units, such as those of a text-to-text model: the graph that gathers the parameters of
// all layers at once is gone after the first layer.
func (s *core) unitless(err error) error {
	if err == nil || !s.options.GradientCheckpointing || s.options.Sharding != shard.FullShard ||
		!strings.Contains(err.Error(), "backward through the graph a second time") {
		return err
	}
	return fmt.Errorf("engine: Options.GradientCheckpointing is set, but %T has layers that Options.Sharding FullShard "+
		"cannot gather one by one (shard.LayerRunner); leave one of the two out, or take ShardGradOp: %w", s.task.Model(),
		err)
}

// must panics if a call among the processes has failed. If the error is not that of an operator, it
// is kept in s.groupErr: an error that names a process may wrap that of an operator.
func (s *core) must(op string, err error) {
	if err == nil {
		return
	}
	known, ok := err.(*torch.Error) //nolint:errorlint // see above
	if !ok {
		s.groupErr, known = err, &torch.Error{Op: op, Code: torch.ErrInternal, Msg: err.Error()}
	}
	panic(known)
}

// reason returns the error for which must has panicked, if it has, and err otherwise.
func (s *core) reason(err error) error {
	if s.groupErr != nil {
		err, s.groupErr = s.groupErr, nil // err only repeats it
	}
	return err
}

// passed returns the error of a micro-batch. A micro-batch without a backward pass is an error,
// since the other processes would wait for it.
func (s *core) passed(err error, w trainer.Window) error {
	err = s.reason(err)
	if err == nil && s.parallel != nil && s.backwards == 0 && lastOfWindow(w) {
		return fmt.Errorf("engine: the TrainingStep of %T did not call Backward, for which the other processes are waiting",
			s.task.given)
	}
	return err
}

// averageLoss replaces the sum of the losses by the mean of the sums of all processes. They are
// gathered, as in transformers, since a reduction may add them in another order.
func (s *core) averageLoss(ctx context.Context) error {
	if s.parallel == nil {
		return nil
	}
	all, err := ddp.AllGather(ctx, s.group, s.lossSum.Detach())
	if err != nil {
		return err
	}
	return scoped(func() error {
		s.lossSum.Copy_(torch.Stack(all, 0).Mean(torch.DefaultDType))
		return nil
	})
}

// randomState is what [Step.RandomState] encodes as JSON.
type randomState struct {
	Generators torchsave.Generators `json:"generators"`
	Task       map[string][]byte    `json:"task,omitempty"`  // generators of a GeneratorOwner; older files lack it
	State      []byte               `json:"state,omitempty"` // of a StateOwner
	Order      []byte               `json:"order,omitempty"`
}

// RandomState returns the state of this process's random generators, and that of a [StateOwner].
func (s *core) RandomState() (state []byte, err error) {
	r := randomState{Task: map[string][]byte{}, Order: s.order.before}
	if t, ok := s.task.given.(StateOwner); ok {
		if r.State, err = t.State(); err != nil {
			return nil, err
		}
	}
	err = torch.Try(func() {
		r.Generators = torchsave.GeneratorsOf(s.devices())
		for name, own := range s.taskGenerators() {
			r.Task[name] = own.State()
		}
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// SetRandomState restores a state returned by RandomState.
func (s *core) SetRandomState(state []byte) error {
	var r randomState
	if err := json.Unmarshal(state, &r); err != nil {
		return fmt.Errorf("engine: the random state of a process: %w", err)
	}
	for _, d := range s.devices() {
		if _, ok := torchsave.GeneratorOf(r.Generators, d); !ok {
			return fmt.Errorf("engine: the random state of a process has no generator of %s: it was made on another "+
				"kind of device; want Options.Device to be of that kind", d)
		}
	}
	putTask := func() {}
	if t, ok := s.task.given.(StateOwner); ok {
		var err error
		if putTask, err = t.LoadState(r.State); err != nil {
			return fmt.Errorf("engine: the state of a process: %w", err)
		}
	}
	return torch.Try(func() {
		putTask()
		r.Generators.Restore(s.devices())
		for name, own := range s.taskGenerators() {
			if state, ok := r.Task[name]; ok {
				own.SetState(state)
			}
		}
		s.order.put(r.Order)
	})
}
