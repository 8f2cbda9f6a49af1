package engine

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gotrainer/gotrainer/optim"
)

// savedSettings are what the optimizer of a checkpoint was made with: the param_groups of a state
// dict of torch.optim, but for the rate, which the trainer keeps.
type savedSettings struct {
	Optimizer string          `json:"optimizer"` // the type of the builder
	Settings  json.RawMessage `json:"settings"`
	Groups    []savedGroup    `json:"groups"`
}

type savedGroup struct {
	WeightDecay *float64 `json:"weight_decay,omitempty"`
	LRScale     float64  `json:"lr_scale,omitempty"`
}

// settings are those of the optimizer as text; empty if its builder is one of the user's that
// cannot be written.
func (s *Step[S, B]) settings() string {
	settings, err := json.Marshal(s.builder)
	if err != nil {
		return ""
	}
	saved := savedSettings{Optimizer: reflect.TypeOf(s.builder).String(), Settings: settings}
	for _, g := range s.optimizer.Groups() {
		saved.Groups = append(saved.Groups, savedGroup{g.WeightDecay, g.LRScale})
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return ""
	}
	return string(text)
}

// takeSettings makes the optimizer again with settings that were saved, if they are others. Of a
// checkpoint without any, and of another optimizer, it takes none: whether the state of that one
// fits is found when it is loaded.
func (s *Step[S, B]) takeSettings(text string) error {
	if text == "" || text == s.settings() {
		return nil
	}
	var saved savedSettings
	if err := json.Unmarshal([]byte(text), &saved); err != nil {
		return fmt.Errorf("the settings of the optimizer: %w", err)
	}
	kind := reflect.TypeOf(s.builder)
	if saved.Optimizer != kind.String() {
		return nil
	}
	builder := reflect.New(kind)
	if err := json.Unmarshal(saved.Settings, builder.Interface()); err != nil {
		return fmt.Errorf("the settings of the optimizer: %w", err)
	}
	groups := append([]optim.Group(nil), s.optimizer.Groups()...)
	if len(groups) != len(saved.Groups) {
		return fmt.Errorf("the optimizer has %d groups of parameters there, %d here", len(saved.Groups), len(groups))
	}
	for i, g := range saved.Groups {
		groups[i].WeightDecay, groups[i].LRScale = g.WeightDecay, g.LRScale
	}
	return s.makeOptimizer(builder.Elem().Interface().(optim.Builder), groups)
}
