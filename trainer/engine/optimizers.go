package engine

import (
	"fmt"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// What some optimizers need beside Step and ZeroGrad: a mode, updates during the backward pass,
// and the names of the embeddings.

// lowRankGroups makes the two groups of Hugging Face's Trainer for GaLore and APOLLO: the second
// holds the weights of the linear layers that match.
func (s *Step[S, B]) lowRankGroups(model any, params []torch.Named) ([]optim.Group, error) {
	var modules []optim.Module
	for _, m := range nn.Modules(model) {
		_, linear := m.Module.(*nn.Linear)
		modules = append(modules, optim.Module{Name: m.Name, Linear: linear})
	}
	groups, ignored, err := optim.LowRankGroups(params, modules, s.options.LowRankTargets)
	if err != nil {
		return nil, fmt.Errorf("engine: Options.LowRankTargets: %w", err)
	}
	if len(ignored) > 0 {
		s.warn("Options.LowRankTargets %s also match %s, which are no linear layers and stay as they are; only the "+
			"weights of linear layers can have a low rank", s.options.LowRankTargets, strings.Join(ignored, ", "))
	}
	return groups, nil
}

// warn says what was not done as somebody may have expected.
func (s *Step[S, B]) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.options.Warn != nil {
		s.options.Warn(text)
		return
	}
	fmt.Fprintln(os.Stderr, "engine: warning:", text)
}

// once is warn, once for each format.
func (s *Step[S, B]) once(format string, args ...any) {
	if !s.said[format] {
		s.said[format] = true
		s.warn(format, args...)
	}
}

// keepEmbeddings lets an 8-bit optimizer of bitsandbytes keep the states of embeddings in 32 bits,
// as Hugging Face's Trainer does.
func keepEmbeddings(b optim.Builder, model any) optim.Builder {
	var names []string
	for _, m := range nn.Modules(model) {
		if _, ok := m.Module.(*nn.Embedding); ok {
			names = append(names, join(m.Name, "weight"))
		}
	}
	return optim.KeepIn32Bits(b, names...)
}

// optimizerMode puts the optimizer into the mode of training or evaluation: the parameters of a
// schedule-free one differ in the two.
func (s *Step[S, B]) optimizerMode(training bool) {
	o, ok := s.optimizer.(optim.ModeSwitcher)
	if !ok {
		return
	}
	s.copies.wait()
	if training {
		o.Train()
	} else {
		o.Eval()
	}
}

// checkUpdater refuses what an optimizer that updates during the backward pass cannot have.
func (s *Step[S, B]) checkUpdater(o optim.Optimizer) error {
	if _, ok := o.(optim.BackwardUpdater); !ok {
		return nil
	}
	why := ""
	switch {
	case s.options.MaxGradNorm > 0 || s.options.MaxGradValue > 0:
		why = "Options.MaxGradNorm and MaxGradValue clip gradients that are gone by then; leave them out"
	case s.scaler != nil:
		why = "fp16 scales gradients that are gone before they are checked; use bf16"
	case s.group.World() > 1:
		why = "several processes would average gradients that are gone by then; use one process"
	default:
		return nil
	}
	o.(optim.BackwardUpdater).RemoveHooks()
	return fmt.Errorf("%T updates each parameter during the backward pass: %s", s.options.Optimizer, why)
}

// beforeBackward tells an optimizer that updates during the backward pass the learning rate.
func (s *Step[S, B]) beforeBackward(w trainer.Window) {
	o, ok := s.optimizer.(optim.BackwardUpdater)
	if !ok {
		return
	}
	if w.Len > 1 {
		panic(&torch.Error{Op: "Backward", Code: torch.ErrInvalid, Msg: fmt.Sprintf("%T updates each parameter during "+
			"the backward pass, so gradients cannot be accumulated over %d batches; want Accumulate 1",
			s.options.Optimizer, w.Len)})
	}
	s.copies.wait()
	o.BeforeBackward(w.LearningRate)
}

// clipped tells whether there are gradients to clip when the backward pass is over.
func (s *Step[S, B]) clipped() bool {
	_, ok := s.optimizer.(optim.BackwardUpdater)
	return !ok
}
