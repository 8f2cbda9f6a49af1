package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Step is a model, its optimizer and their state: a [trainer.Step] made by [New]. Like every Step it is used by one goroutine at a time.
type Step[S, B any] struct {
	task      Task[S, B]
	options   Options
	optimizer optim.Optimizer
	params    *torch.List // those that are trained
	scaler    *amp.GradScaler

	training bool // the mode the model is in

	// What has gathered since the last report, kept on the device so that no step waits for it.
	lossSum  torch.Tensor
	gradNorm torch.Tensor
	normed   bool
	filter   int // see FilterLoss; negative: off

	evalLoss float64
	evalRows int
}

var (
	_ trainer.Step[int, int] = (*Step[int, int])(nil)
	_ trainer.Stateful       = (*Step[int, int])(nil)
	_ trainer.WeightLoader   = (*Step[int, int])(nil)
	_ trainer.Seeder         = (*Step[int, int])(nil)
	_ trainer.LoaderObserver = (*Step[int, int])(nil)
	_ trainer.LearningRater  = (*Step[int, int])(nil)
	_ trainer.LossFilter     = (*Step[int, int])(nil)
	_ trainer.Describer      = (*Step[int, int])(nil)
	_ trainer.Clipper        = (*Step[int, int])(nil)
)

// New makes a Step of a task. It moves the model to the device, loads initial weights and builds the optimizer.
func New[S, B any](task Task[S, B], o Options) (*Step[S, B], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Step[S, B]{task: task, options: o, training: true, filter: -1}
	var err error
	if e := torch.Try(func() { err = s.prepare() }); e != nil {
		return nil, fmt.Errorf("engine: %w", e)
	}
	return s, err
}

func (s *Step[S, B]) prepare() error {
	model := s.task.Model()
	if s.options.InitWeightsFrom != "" {
		if _, err := nn.Load(weightsFile(s.options.InitWeightsFrom), model, nn.LoadOptions{}); err != nil {
			return fmt.Errorf("engine: Options.InitWeightsFrom: %w", err)
		}
	}
	if s.options.Device != torch.CPU {
		nn.To(model, torch.Options{Device: s.options.Device})
	}
	nn.SetTraining(model, true)
	var trained []torch.Named
	var tensors []torch.Tensor
	for _, p := range nn.Params(model) {
		if p.Tensor.NeedsGrad() {
			trained = append(trained, p)
			tensors = append(tensors, p.Tensor)
		}
	}
	if len(trained) == 0 {
		return fmt.Errorf("engine: the model %T has no parameter that requires a gradient: are its fields tagged, as in `param:\"weight\"`, or are all frozen?", model)
	}
	s.params = torch.NewList(tensors...)
	s.lossSum = torch.Options{Device: s.options.Device}.Zeros().Keep()
	s.gradNorm = torch.Options{Device: s.options.Device}.Zeros().Keep()
	if s.options.Precision == amp.FP16 {
		s.scaler = amp.NewGradScaler(amp.GradScalerOptions{})
	}
	return s.buildOptimizer(model, trained)
}

func (s *Step[S, B]) buildOptimizer(model any, params []torch.Named) error {
	builder := s.options.Optimizer
	if builder == nil {
		builder = optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}
		s.options.Optimizer = builder
	}
	groups := s.options.Groups
	if groups == nil {
		groups = noDecayGroups
	}
	optimizer, err := builder.Build(groups(model, params))
	if err != nil {
		return fmt.Errorf("engine: Options.Optimizer: %w", err)
	}
	s.optimizer = optimizer
	return nil
}

// Collate calls the task.
func (s *Step[S, B]) Collate(samples []S) (B, error) { return s.task.Collate(samples) }

// CountItems calls the task; 0 if it does not count.
func (s *Step[S, B]) CountItems(b B) int64 {
	if c, ok := s.task.(ItemCounter[B]); ok {
		return c.CountItems(b)
	}
	return 0
}

// Seed restarts the default generators of all devices.
func (s *Step[S, B]) Seed(seed uint64) error {
	return torch.Try(func() { torch.ManualSeed(seed) })
}

// StartLoader draws one number from the CPU's generator, as PyTorch's DataLoader does for the seed of its workers.
func (s *Step[S, B]) StartLoader(bool) error {
	return torch.Try(func() {
		torch.Options{DType: torch.Int64}.Empty().Random_(nil).Free()
	})
}

// LearningRate is the rate that the optimizer was made with.
func (s *Step[S, B]) LearningRate() float64 { return s.options.Optimizer.LearningRate() }

// Model returns the task's model.
func (s *Step[S, B]) Model() any { return s.task.Model() }

// Optimizer returns the optimizer.
func (s *Step[S, B]) Optimizer() optim.Optimizer { return s.optimizer }

// Describe names the model, its size, precision and device.
func (s *Step[S, B]) Describe() string {
	total := int64(0)
	for _, p := range nn.Params(s.task.Model()) {
		total += p.Tensor.Numel()
	}
	return fmt.Sprintf("%T, %s parameters, %s on %s", s.task.Model(), short(total), s.options.Precision, s.options.Device)
}

func short(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// mode puts the model into training or evaluation mode if it is not there.
func (s *Step[S, B]) mode(training bool) {
	if s.training != training {
		nn.SetTraining(s.task.Model(), training)
		s.training = training
	}
}

// Train adds the gradient of one micro-batch.
func (s *Step[S, B]) Train(_ context.Context, b B, w trainer.Window) error {
	return torch.Try(func() {
		s.mode(true)
		torch.Scope(func() {
			var loss Loss
			amp.Autocast(s.options.Device, s.options.Precision, func() {
				loss = s.task.Loss(Pass{Device: s.options.Device, Items: w.Items}, b)
			})
			value := loss.Value
			if w.Divisor != 1 && !loss.whole {
				value = value.DivScalar(w.Divisor)
			}
			if s.scaler != nil {
				s.scaler.Scale(value).Backward()
			} else {
				value.Backward()
			}
			s.addLoss(value.Detach())
		})
	})
}

// addLoss sums the loss on the device; a filtered one that is nan or inf counts as the mean so far.
func (s *Step[S, B]) addLoss(loss torch.Tensor) {
	if s.filter >= 0 {
		loss = torch.Where(loss.IsFinite(), loss, s.lossSum.DivScalar(1+s.filter))
	}
	s.lossSum.Add_(loss)
}

// FilterLoss keeps nan and inf of the next window out of the reported sum.
func (s *Step[S, B]) FilterLoss(updates int) { s.filter = updates }

// Clip unscales the gradients and limits their norm and values.
func (s *Step[S, B]) Clip(context.Context) (err error) {
	panicked := torch.Try(func() {
		torch.Scope(func() {
			if s.scaler != nil {
				err = s.scaler.Unscale_(s.optimizer)
			}
			if err == nil {
				s.clip()
			}
		})
	})
	return errors.Join(panicked, err)
}

// Update moves the weights and removes the gradients. With a scaler it waits for the device to learn whether the gradients are finite.
func (s *Step[S, B]) Update(_ context.Context, lr float64) (applied bool, err error) {
	panicked := torch.Try(func() {
		torch.Scope(func() {
			applied = true
			if s.scaler == nil {
				s.optimizer.Step(lr)
			} else if applied, err = s.scaler.Step(s.optimizer, lr); err == nil {
				err = s.scaler.Update()
			}
			s.optimizer.ZeroGrad()
			s.filter = -1
		})
	})
	if err = errors.Join(panicked, err); err != nil {
		return false, err
	}
	return applied, nil
}

func (s *Step[S, B]) clip() {
	limit := s.options.MaxGradNorm
	if limit == 0 {
		limit = 1
	}
	switch {
	case math.IsInf(limit, 1):
		s.gradNorm.Copy_(s.params.GradNorm(2))
		s.normed = true
	case limit > 0:
		s.gradNorm.Copy_(s.params.ClipGradNorm(limit, 2))
		s.normed = true
	}
	if s.options.MaxGradValue > 0 {
		s.params.ClipGradValue(s.options.MaxGradValue)
	}
}

// Report reads the sum of losses and the last gradient norm back from the device.
func (s *Step[S, B]) Report(context.Context) (r trainer.Report, err error) {
	err = torch.Try(func() {
		r = trainer.Report{LossSum: s.lossSum.Item(), GradNorm: -1}
		s.lossSum.Zero_()
		if s.normed {
			r.GradNorm = s.gradNorm.Item()
		}
	})
	return r, err
}

// Eval adds a batch to the running evaluation.
func (s *Step[S, B]) Eval(_ context.Context, b B) error {
	return torch.Try(func() {
		s.mode(false)
		torch.NoGrad(func() {
			torch.Scope(func() {
				var loss Loss
				amp.Autocast(s.options.Device, s.options.Precision, func() {
					p := Pass{Device: s.options.Device}
					if e, ok := s.task.(Evaluator[B]); ok {
						loss = e.Evaluate(p, b)
					} else {
						loss = s.task.Loss(p, b)
					}
				})
				s.evalLoss += loss.Value.Item() * float64(loss.Rows)
				s.evalRows += loss.Rows
			})
		})
	})
}

// Metrics ends the running evaluation: "loss" is the mean over samples, the rest is the task's.
func (s *Step[S, B]) Metrics(context.Context) (trainer.Metrics, error) {
	m := trainer.Metrics{"loss": s.evalLoss / float64(s.evalRows)}
	s.evalLoss, s.evalRows = 0, 0
	if e, ok := s.task.(Evaluator[B]); ok {
		for name, value := range e.Metrics() {
			m[name] = value
		}
	}
	return m, nil
}
