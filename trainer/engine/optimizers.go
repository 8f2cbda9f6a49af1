package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// What some optimizers need besides Step and ZeroGrad: a mode, updates during the backward pass,
// and the names of the embeddings.

// lowRankGroups makes the two groups of Hugging Face's Trainer for GaLore and APOLLO: the second
// holds the weights of the linear layers that match.
func (s *core) lowRankGroups(model any, params []torch.Named) ([]optim.Group, error) {
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
		s.warn("Options.LowRankTargets %s also match %s, which are not linear layers and are left unchanged; only the "+
			"weights of linear layers can have a low rank", s.options.LowRankTargets, strings.Join(ignored, ", "))
	}
	return groups, nil
}

// warn reports something that was not done as the user may have expected.
func (s *core) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.options.Warn != nil {
		s.options.Warn(text)
		return
	}
	fmt.Fprintln(os.Stderr, "engine: warning:", text)
}

// once is warn, but only once for each format.
func (s *core) once(format string, args ...any) {
	if !s.warned[format] {
		s.warned[format] = true
		s.warn(format, args...)
	}
}

// optimizerMode puts the optimizer into training or evaluation mode: the parameters of a
// schedule-free optimizer differ in the two.
func (s *core) optimizerMode(training bool) {
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

// checkUpdater refuses options that do not work with an optimizer that updates during the backward
// pass.
func (s *core) checkUpdater(o optim.Optimizer) error {
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

// beforeBackward passes the learning rate to an optimizer that updates during the backward pass.
func (s *core) beforeBackward(w trainer.Window) {
	o, ok := s.optimizer.(optim.BackwardUpdater)
	if !ok {
		return
	}
	if w.Len > 1 {
		panic(torch.Errorf("Backward", torch.ErrInvalid, "%T updates each parameter during the backward pass, so "+
			"gradients cannot be accumulated over %d batches; want Accumulate 1", s.options.Optimizer, w.Len))
	}
	s.copies.wait()
	o.BeforeBackward(w.LearningRate)
}

// clipped reports whether gradients can be clipped, that is, whether they still exist after the
// backward pass.
func (s *core) clipped() bool { return !is[optim.BackwardUpdater](s.optimizer) }

// noDecayGroups makes the two groups of Hugging Face's Trainer (get_decay_parameter_names): the
// parameters of LayerNorms, and those named like biases or norms, have no weight decay; the others
// have that of the optimizer. Either group may be empty.
func noDecayGroups(model any, params []torch.Named) []optim.Group {
	exempt := map[string]bool{}
	for _, m := range nn.Modules(model) {
		if _, ok := m.Module.(*nn.LayerNorm); ok {
			for _, p := range nn.Params(m.Module) {
				exempt[join(m.Name, p.Name)] = true
			}
		}
	}
	groups := optim.NoDecayFunc(params, 0, func(name string) bool { return exempt[name] || optim.NoDecayName(name) })
	groups[0].WeightDecay = nil
	return groups
}

// savedSettings are the settings of the optimizer in a checkpoint: the param_groups of a state dict
// of torch.optim, except for the learning rate, which the trainer keeps.
type savedSettings struct {
	savedBuilder
	Groups []savedGroup `json:"groups"`
}

type savedBuilder struct {
	Optimizer string          `json:"optimizer,omitempty"` // type of the builder
	Settings  json.RawMessage `json:"settings,omitempty"`
}

type savedGroup struct {
	WeightDecay  *float64 `json:"weight_decay,omitempty"`
	LRScale      float64  `json:"lr_scale,omitempty"`
	savedBuilder          // of the group's own optimizer
}

func saveBuilder(b optim.Builder) (savedBuilder, error) {
	if b == nil {
		return savedBuilder{}, nil
	}
	settings, err := json.Marshal(b)
	return savedBuilder{reflect.TypeOf(b).String(), settings}, err
}

// restored returns the saved builder if it has the type of b, and otherwise b.
func (s savedBuilder) restored(b optim.Builder) (optim.Builder, error) {
	if b == nil || reflect.TypeOf(b).String() != s.Optimizer {
		return b, nil
	}
	builder := reflect.New(reflect.TypeOf(b))
	if err := json.Unmarshal(s.Settings, builder.Interface()); err != nil {
		return nil, fmt.Errorf("the settings of the optimizer: %w", err)
	}
	return builder.Elem().Interface().(optim.Builder), nil //nolint:forcetypeassert // the type of b
}

// settings returns the settings of the optimizer as text; empty if its builder is of a type of the
// user's that cannot be encoded.
func (s *core) settings() string {
	var saved savedSettings
	var err error
	if saved.savedBuilder, err = saveBuilder(s.builder); err != nil {
		return ""
	}
	for _, g := range s.optimizer.Groups() {
		own, err := saveBuilder(g.Optimizer)
		if err != nil {
			return ""
		}
		saved.Groups = append(saved.Groups, savedGroup{g.WeightDecay, g.LRScale, own})
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return ""
	}
	return string(text)
}

// takeSettings rebuilds the optimizer with saved settings, if they differ from the current ones. It
// ignores missing settings and those of another optimizer: whether that one's state fits is checked
// when the state is loaded.
func (s *core) takeSettings(text string) error {
	if text == "" || text == s.settings() {
		return nil
	}
	var saved savedSettings
	if err := json.Unmarshal([]byte(text), &saved); err != nil {
		return fmt.Errorf("the settings of the optimizer: %w", err)
	}
	if saved.Optimizer != reflect.TypeOf(s.builder).String() {
		return nil
	}
	builder, err := saved.restored(s.builder)
	if err != nil {
		return err
	}
	groups := append([]optim.Group(nil), s.optimizer.Groups()...)
	if len(groups) != len(saved.Groups) {
		return fmt.Errorf("the optimizer has %d groups of parameters there, %d here", len(saved.Groups), len(groups))
	}
	for i, g := range saved.Groups {
		groups[i].WeightDecay, groups[i].LRScale = g.WeightDecay, g.LRScale
		if groups[i].Optimizer, err = g.restored(groups[i].Optimizer); err != nil {
			return err
		}
	}
	return s.makeOptimizer(builder, groups)
}
