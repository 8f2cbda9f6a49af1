package nn

import "github.com/gotrainer/gotrainer/torch"

// LinearAdapter changes what a layer computes, such as the low-rank update of package models/lora. It
// is a struct whose fields have tags, as those of a module: its modules become the layer's.
type LinearAdapter interface {
	// Adapt makes the output of the layer of its input, [..., in], and of what the layer alone
	// computes of it, [..., out].
	Adapt(x, y torch.Tensor) torch.Tensor
}

// Adaptable is embedded by layers that take a [LinearAdapter], as [Linear] does.
type Adaptable struct{ adapter LinearAdapter }

// SetAdapter gives the layer an adapter; nil takes it away. It must not be called while the layer
// computes.
func (a *Adaptable) SetAdapter(l LinearAdapter) { a.adapter = l }

// Adapter is what SetAdapter was given last.
func (a *Adaptable) Adapter() LinearAdapter { return a.adapter }

// Adapt is that of the adapter; without one it returns y.
func (a *Adaptable) Adapt(x, y torch.Tensor) torch.Tensor {
	if a.adapter == nil {
		return y
	}
	return a.adapter.Adapt(x, y)
}

// OwnModules are the adapter's.
func (a *Adaptable) OwnModules() []Named {
	if a.adapter == nil {
		return nil
	}
	return Children(a.adapter)
}
