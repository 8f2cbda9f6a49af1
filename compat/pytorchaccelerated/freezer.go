package pytorchaccelerated

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// ModelFreezer freezes and unfreezes parts of a model by their place, for fine-tuning.
//
// A layer group is a module that is a field of the model. A layer is a module that holds no other;
// the layers of a model are those of its groups in order.
type ModelFreezer struct {
	model      any
	batchNorms bool
	groups     []any
	layers     []Layer
}

// Layer is a module that contains no other modules.
type Layer struct {
	Group  int // of the model, from 0
	Module any
	Frozen bool // its parameters are not trained; one without parameters is frozen in evaluation mode
}

// LayerGroup is a module that is a field of the model.
type LayerGroup struct {
	Group  int
	Module any
	Frozen bool // some of its parameters are not trained
}

// NewModelFreezer unfreezes all parameters of the model. Batch normalisation layers stay unfrozen
// unless freezeBatchNorms is set.
func NewModelFreezer(model any, freezeBatchNorms bool) *ModelFreezer {
	setRequiresGrad(nn.Params(model), true)
	f := &ModelFreezer{model: model, batchNorms: freezeBatchNorms}
	for i, child := range nn.Children(model) {
		f.groups = append(f.groups, child.Module)
		f.collect(child.Module, i)
	}
	return f
}

func (f *ModelFreezer) collect(module any, group int) {
	children := nn.Children(module)
	if len(children) == 0 {
		f.layers = append(f.layers, Layer{Group: group, Module: module})
	}
	for _, c := range children {
		f.collect(c.Module, group)
	}
}

func setRequiresGrad(params []torch.Named, on bool) {
	for _, p := range params {
		p.Tensor.SetRequiresGrad(on)
	}
}

// NumGroups returns the number of layer groups.
func (f *ModelFreezer) NumGroups() int { return len(f.groups) }

// LayerGroups returns the current state of the layer groups.
func (f *ModelFreezer) LayerGroups() []LayerGroup {
	var out []LayerGroup
	for i, g := range f.groups {
		out = append(out, LayerGroup{i, g, len(trained(g)) < len(nn.Params(g))})
	}
	return out
}

// Layers returns the current state of the layers.
func (f *ModelFreezer) Layers() []Layer {
	var out []Layer
	for _, l := range f.layers {
		if params := nn.Params(l.Module); len(params) > 0 {
			l.Frozen = !params[0].Tensor.NeedsGrad()
		} else if mode, ok := l.Module.(interface{ Training() bool }); ok {
			l.Frozen = !mode.Training()
		}
		out = append(out, l)
	}
	return out
}

// TrainableParameters returns the parameters that are trained, to make an optimizer with.
func (f *ModelFreezer) TrainableParameters() []torch.Named { return trained(f.model) }

func trained(model any) []torch.Named {
	return slices.DeleteFunc(nn.Params(model), func(p torch.Named) bool { return !p.Tensor.NeedsGrad() })
}

// Freeze freezes the layer groups from one index to another, both included; negative indices count
// from the end. Freeze(0, -2, false) freezes all but the last group. With evalMode, the layers are
// also put into evaluation mode, until the next training epoch puts the model into training mode.
func (f *ModelFreezer) Freeze(from, to int, evalMode bool) error {
	_, err := f.change(from, to, true, evalMode)
	return err
}

// Unfreeze unfreezes the layer groups from one index to another, both included, and returns the
// parameters that were frozen, by group, for an optimizer. Unfreeze(-1, 0, true) unfreezes all.
func (f *ModelFreezer) Unfreeze(from, to int, trainMode bool) (map[int][]torch.Named, error) {
	return f.change(from, to, false, trainMode)
}

func (f *ModelFreezer) change(from, to int, freeze, mode bool) (map[int][]torch.Named, error) {
	n := len(f.groups)
	for _, i := range []int{from, to} {
		if i < -n || i >= n {
			return nil, fmt.Errorf("pytorchaccelerated: there is no layer group %d; the model has %d, counted from 0, or "+
				"from -1 backwards", i, n)
		}
	}
	from, to = (from+n)%n, (to+n)%n // negative indices count from the end
	first, last := min(from, to), max(from, to)
	changed := map[int][]torch.Named{}
	for _, l := range f.Layers() {
		if l.Group < first || l.Group > last || l.Frozen == freeze || isBatchNorm(l.Module) && !f.batchNorms {
			continue
		}
		if params := nn.Params(l.Module); len(params) > 0 {
			setRequiresGrad(params, !freeze)
			changed[l.Group] = append(changed[l.Group], params...)
		}
		if mode {
			nn.SetTraining(l.Module, !freeze)
		}
	}
	return changed, nil
}

func isBatchNorm(module any) bool {
	switch module.(type) {
	case *nn.BatchNorm1d, *nn.BatchNorm2d, *nn.BatchNorm3d, *nn.SyncBatchNorm:
		return true
	}
	return false
}
