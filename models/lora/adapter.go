package lora

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Adapter is the trained part of a model: the updates of its layers, and the modules and biases
// that are trained directly.
type Adapter struct {
	model   any
	config  Config
	layers  []target
	state   []torch.Named // by their names in the file
	enabled bool
}

// target is a layer together with its update.
type target struct {
	name   string
	layer  layer
	update *update
}

// Add adds updates to layers of a model and freezes all other weights except those that the
// configuration names: get_peft_model. The updates are drawn from the default generator in the
// order of the model's modules. A model has at most one adapter. Make optimizers and call
// engine.New afterwards. If something does not fit, Add returns an error and the model is
// unchanged.
func Add(model any, c Config) (a *Adapter, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	a = &Adapter{model: model, config: c, enabled: true}
	failed := torch.Try(func() {
		if err = a.find(); err == nil {
			err = a.build()
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return a, nil
}

// find determines the layers that get updates. It does not change the model.
func (a *Adapter) find() error {
	modules := a.modules()
	c := &a.config
	if slices.Contains(c.TargetModules, AllLinear) {
		if len(c.TargetModules) > 1 {
			return fmt.Errorf("lora: Config.TargetModules has %q and others; it stands alone", AllLinear)
		}
		c.TargetModules = a.allLinear(modules)
	}
	if parts := nn.LinearParts(a.model); len(parts) > 0 {
		return fmt.Errorf("lora: only parts of the model are here (%s): a divided layer (dist/tensor) takes no update",
			parts[0])
	}
	var linear []string
	for _, m := range modules {
		l, ok := asLayer(m.Module)
		if ok && l.Adapter() != nil {
			return fmt.Errorf("lora: %s has an adapter already; Merge or Remove it first", m.Name)
		}
		if ok {
			linear = append(linear, m.Name)
		}
		if !c.targets(m.Name) {
			continue
		}
		if !ok {
			return fmt.Errorf("lora: %s, which %s names, is a %T; linear layers and Conv1D take updates", m.Name, c.target(),
				m.Module)
		}
		a.layers = append(a.layers, target{name: m.Name, layer: l})
	}
	if len(a.layers) == 0 {
		return fmt.Errorf("lora: no layer of the model fits %s; the linear ones are called %s", c.target(),
			strings.Join(lastParts(linear), ", "))
	}
	return nil
}

// target describes for errors which layers get updates.
func (c Config) target() string {
	if c.TargetPattern != "" {
		return fmt.Sprintf("Config.TargetPattern %q", c.TargetPattern)
	}
	return fmt.Sprintf("Config.TargetModules %q", c.TargetModules)
}

// lastParts returns the distinct last components of names.
func lastParts(names []string) []string {
	last := map[string]bool{}
	for _, n := range names {
		last[n[strings.LastIndex(n, ".")+1:]] = true
	}
	return slices.Sorted(maps.Keys(last))
}

// OutputEmbedder is a model with a layer that computes a logit for each word of a vocabulary,
// which [AllLinear] excludes: get_output_embeddings of transformers.
type OutputEmbedder interface {
	OutputEmbeddings() *nn.Linear // nil: there is none
}

// allLinear returns the linear layers of a model except its output layer. It returns only the last
// components of their names, as other programs do, unless these also match modules of another kind.
func (a *Adapter) allLinear(modules []nn.Named) []string {
	var output any
	if o, ok := a.model.(OutputEmbedder); ok && o.OutputEmbeddings() != nil {
		output = o.OutputEmbeddings()
	}
	var names, others []string
	for _, m := range modules {
		if _, ok := asLayer(m.Module); ok && m.Module != output && !a.config.saves(m.Name) {
			names = append(names, m.Name)
		} else if !a.config.saves(m.Name) {
			others = append(others, m.Name)
		}
	}
	short := lastParts(names)
	if slices.ContainsFunc(others, func(name string) bool { return fits(name, short) }) {
		return names
	}
	return short
}

// build creates the updates and sets which parameters are trained.
func (a *Adapter) build() error {
	trained, err := a.trained()
	if err != nil {
		return err
	}
	training := isTraining(a.model)
	for i := range a.layers {
		t := &a.layers[i]
		t.update = newUpdate(t.layer, t.name, a.config, &a.enabled)
		nn.SetTraining(t.update, training)
	}
	if err := nn.Freeze(a.model); err != nil {
		return err
	}
	for _, t := range a.layers {
		t.layer.SetAdapter(t.update)
	}
	for t := range trained {
		t.SetRequiresGrad(true)
	}
	a.list(trained)
	return nil
}

// isTraining reports whether a model is in training mode, according to the first of its modules
// that has a mode.
func isTraining(model any) bool {
	for _, m := range nn.Modules(model) {
		if mode, ok := m.Module.(interface{ Training() bool }); ok {
			return mode.Training()
		}
	}
	return true
}

// trained returns the model's own weights that are trained.
func (a *Adapter) trained() (map[torch.Tensor]bool, error) {
	trained := map[torch.Tensor]bool{}
	found := map[string]bool{}
	for _, m := range a.modules() {
		for _, wanted := range a.config.ModulesToSave {
			if strings.HasSuffix(m.Name, wanted) {
				found[wanted] = true
			}
		}
	}
	for _, wanted := range a.config.ModulesToSave {
		// With a task type, peft lists names of heads that a model may not have.
		if !found[wanted] && a.config.TaskType == "" {
			return nil, fmt.Errorf("lora: the model has no module %q, which Config.ModulesToSave names", wanted)
		}
	}
	adapted := map[torch.Tensor]string{}
	for _, t := range a.layers {
		weight, _, _, _ := sizes(t.layer)
		adapted[weight] = t.name
	}
	whole := map[torch.Tensor]string{} // tensors that are not trained as a whole, with their names
	for _, p := range a.stateDict() {
		if a.config.saves(parent(p.Name)) || a.trainsBias(p.Name) {
			trained[p.Tensor] = true
		} else {
			whole[p.Tensor] = p.Name
		}
		if name, ok := adapted[p.Tensor]; ok && p.Name != name+".weight" {
			return nil, fmt.Errorf("lora: the weight of %s is also %s: it cannot have an update of its own", name, p.Name)
		}
	}
	for t := range trained {
		if name, ok := whole[t]; ok {
			return nil, fmt.Errorf("lora: Config.ModulesToSave names a module whose weight is also %s, which is not to be "+
				"trained", name)
		}
	}
	for _, b := range nn.Buffers(a.model) {
		delete(trained, b.Tensor)
	}
	return trained, nil
}

func parent(name string) string { return name[:max(strings.LastIndex(name, "."), 0)] }

// trainsBias reports whether a tensor is a bias that is trained. As in peft, with AllBias this is
// every tensor whose name contains "bias", including T5's relative attention bias, which is the
// weight of an embedding.
func (a *Adapter) trainsBias(name string) bool {
	switch a.config.Bias {
	case AllBias:
		return strings.Contains(name, "bias")
	case LoRABias:
		return name[strings.LastIndex(name, ".")+1:] == "bias" && a.has(parent(name))
	case NoBias:
	}
	return false
}

// has reports whether the layer with the given name has an update.
func (a *Adapter) has(name string) bool {
	return slices.ContainsFunc(a.layers, func(t target) bool { return t.name == name })
}

// Renamer is a model whose modules have other names in the files of adapters, and therefore in
// [Config], than in its own files. It may be asked for the name of a tensor, too.
type Renamer interface {
	AdapterName(own string) string
}

// name returns the name that a module or tensor of the model has in files of adapters.
func (a *Adapter) name(own string) string {
	if r, ok := a.model.(Renamer); ok {
		return r.AdapterName(own)
	}
	return own
}

// modules returns the modules of the model, by their names in files of adapters.
func (a *Adapter) modules() []nn.Named {
	modules := nn.Modules(a.model)
	for i := range modules {
		modules[i].Name = a.name(modules[i].Name)
	}
	return modules
}

// stateDict returns the tensors of the model, by their names in files of adapters.
func (a *Adapter) stateDict() []torch.Named {
	state := nn.StateDict(a.model)
	for i := range state {
		state[i].Name = a.name(state[i].Name)
	}
	return state
}

// prefix is the prefix that peft's wrapper adds to names.
const prefix = "base_model.model."

// list sets a.state to the tensors in the file: updates, modules to save with their buffers, and
// biases.
func (a *Adapter) list(trained map[torch.Tensor]bool) {
	for _, t := range a.stateDict() {
		layer, last := parent(t.Name), t.Name[strings.LastIndex(t.Name, ".")+1:]
		update := strings.HasSuffix(layer, ".lora_A") || strings.HasSuffix(layer, ".lora_B")
		switch {
		case strings.HasSuffix(layer, ".lora_magnitude_vector") && a.has(parent(layer)):
			a.state = append(a.state, torch.Named{Name: prefix + layer, Tensor: t.Tensor})
		case update && a.has(parent(layer)), a.config.saves(layer):
			a.state = append(a.state, torch.Named{Name: prefix + t.Name, Tensor: t.Tensor})
		case trained[t.Tensor] && a.has(layer):
			a.state = append(a.state, torch.Named{Name: prefix + layer + ".base_layer." + last, Tensor: t.Tensor})
		case trained[t.Tensor]:
			a.state = append(a.state, torch.Named{Name: prefix + t.Name, Tensor: t.Tensor})
		}
	}
}

// Config returns the configuration of the adapter, with the defaults filled in.
func (a *Adapter) Config() Config { return a.config }

// Layers returns the names of the layers with updates, in the order of the model.
func (a *Adapter) Layers() []string {
	names := make([]string, len(a.layers))
	for i, t := range a.layers {
		names[i] = t.name
	}
	return names
}

// SetEnabled switches the updates of the layers on and off: disable_adapter. Without them the
// model computes what it did before, except for ModulesToSave and biases. It must not be called
// while the model runs.
func (a *Adapter) SetEnabled(on bool) { a.enabled = on }

// Merge adds the updates to the weights of their layers and removes them from the model, which
// then computes the same, except for rounding, at its original speed: merge_and_unload. Frozen
// weights stay frozen; use [nn.Unfreeze] to train them. The adapter must not be used afterwards.
func (a *Adapter) Merge() error {
	if a.layers == nil {
		return errMerged
	}
	var failed error
	err := torch.Try(func() {
		for _, t := range a.layers {
			failed = errors.Join(failed, t.update.merge(t.layer))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	return a.Remove()
}

var errMerged = errors.New("lora: the adapter was merged or removed")

// Remove removes the updates from the model, which then computes what it did before, except for
// ModulesToSave and biases: unload.
func (a *Adapter) Remove() error {
	if a.layers == nil {
		return errMerged
	}
	for _, t := range a.layers {
		t.layer.SetAdapter(nil)
	}
	a.layers, a.state = nil, nil
	return nil
}
