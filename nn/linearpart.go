package nn

import "github.com/gotrainer/gotrainer/torch"

// LinearPart makes a [Linear] one part of a layer that is split over several processes. Package
// dist/tensor splits layers.
type LinearPart struct {
	Name string // "part 0 of 2 of the output features"

	Input  func(x torch.Tensor) torch.Tensor // applied to the input; may be nil
	Output func(y torch.Tensor) torch.Tensor // applied to x·Wᵀ before the bias is added; may be nil
}

// SetPart makes l a part of a layer, or with nil a whole layer again. Weight and Bias do not
// change.
func (l *Linear) SetPart(p *LinearPart) { l.part = p }

func (p *LinearPart) forward(l *Linear, x torch.Tensor) torch.Tensor {
	if p.Input != nil {
		x = p.Input(x)
	}
	if p.Output == nil {
		return x.Linear(l.Weight, l.Bias)
	}
	y := p.Output(x.Linear(l.Weight, torch.Tensor{}))
	if l.Bias.Defined() {
		y = y.Add(l.Bias.ToDType(y.DType())) // under autocast y has a lower precision
	}
	return y
}

// LinearParts lists the layers of a model of which this process holds only a part, and says which:
// "up, part 0 of 2 of the output features". Copies of a model on several processes have the same
// list.
func LinearParts(m any) (names []string) {
	for _, n := range Modules(m) {
		if l, ok := n.Module.(*Linear); ok && l.part != nil {
			names = append(names, n.Name+", "+l.part.Name)
		}
	}
	return names
}
