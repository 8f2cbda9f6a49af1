package nn

import "github.com/gotrainer/gotrainer/torch"

// LinearAdapter changes what a layer computes, such as the low-rank update of package models/lora.
// It is a struct whose fields have tags, like those of a module: its modules become the layer's.
type LinearAdapter interface {
	// Adapt computes the output of the layer from its input, [..., in], and from the output of the
	// layer alone, [..., out].
	Adapt(x, y torch.Tensor) torch.Tensor
}

// Adaptable is embedded by layers that take a [LinearAdapter], as [Linear] does.
type Adaptable struct{ adapter LinearAdapter }

// SetAdapter sets the layer's adapter; nil removes it. It must not be called while the layer
// computes.
func (a *Adaptable) SetAdapter(l LinearAdapter) { a.adapter = l }

// Adapter returns the adapter set by SetAdapter.
func (a *Adaptable) Adapter() LinearAdapter { return a.adapter }

// Adapt calls the adapter's Adapt. Without an adapter it returns y.
func (a *Adaptable) Adapt(x, y torch.Tensor) torch.Tensor {
	if a.adapter == nil {
		return y
	}
	return a.adapter.Adapt(x, y)
}

// OwnModules returns the adapter's modules.
func (a *Adaptable) OwnModules() []Named {
	if a.adapter == nil {
		return nil
	}
	return Children(a.adapter)
}
