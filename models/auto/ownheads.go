package auto

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// newHead makes the head for a task. If the model has its own head for it, it is that one.
func (t task) newHead(p transformer.Blueprint, b transformer.Builder) head {
	build := p.Heads[t.class]
	if build == nil {
		return t.head(p, b)
	}
	own := build(b)
	if tied, ok := own.(transformer.TiedHead); ok {
		return &ownTiedHead{ownHead{own}, tied}
	}
	return &ownHead{own}
}

// ownHead is a head that is defined in the model's package.
type ownHead struct {
	own transformer.Head `module:"-"` // its modules are listed by OwnModules
}

// OwnModules returns the modules of the model's head.
func (h *ownHead) OwnModules() []nn.Named { return nn.Children(h.own) }

// DrawWeights draws the weights of the model's head.
func (h *ownHead) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	if d, ok := h.own.(transformer.WeightDrawer); ok {
		d.DrawWeights(std, wanted)
	}
}

func (h *ownHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.own.Forward(hidden)
}

// ownTiedHead is an ownHead that shares the weight of the token embedding.
type ownTiedHead struct {
	ownHead
	tied transformer.TiedHead `module:"-"`
}

func (h *ownTiedHead) tie(e *nn.Embedding) { h.tied.Tie(e) }

func (h *ownTiedHead) output() *nn.Linear { return h.tied.Output() }

// drawMissing draws the weights with the given names as [newModel] would.
func (m *Model) drawMissing(missing map[string]bool) {
	if draw := m.backbone.DrawMissing; draw != nil {
		draw(missing)
		return
	}
	m.blueprint.InitWeights(m, missing)
	// The modules of the head are among those of m, but the head itself is not.
	if d, ok := m.head.(transformer.WeightDrawer); ok {
		torch.NoGrad(func() {
			torch.Scope(func() {
				d.DrawWeights(m.blueprint.InitializerRange, func(name string, t torch.Tensor) bool {
					return t.Defined() && missing[name]
				})
			})
		})
	}
}
