package logprob

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is a decoder whose output layer can be applied separately.
type Model interface {
	// Hidden maps token ids and their mask, [B, L], to the input of the output layer, [B, L,
	// hidden].
	Hidden(ids, mask torch.Tensor) torch.Tensor
	OutputEmbeddings() *nn.Linear
	Logits() transformer.Logits
}

// PackedModel is a [Model] that can compute a batch without its padding.
type PackedModel interface {
	inputs.PackedModel
	// HiddenPacked is Hidden of a packed batch; padding has the hidden state 0.
	HiddenPacked(p *inputs.Packed) torch.Tensor
}

// CheckOutput refuses a model whose output layer is adapted, quantized or missing, or that has a loss
// of its own. pkg is the name of the package in the error.
func CheckOutput(pkg string, m Model) error {
	if out := m.OutputEmbeddings(); out == nil || out.Adapter() != nil || out.Quantized() != nil {
		return fmt.Errorf("%s: the output layer of the model has an update (lora.Config.TargetModules), is quantized or is "+
			"not there; log probabilities are computed of its weight itself, so that nothing else of it would count: leave "+
			"it out", pkg)
	}
	if a, ok := m.(inputs.AuxModel); ok && a.HasAuxLoss() {
		return fmt.Errorf("%s: output_router_logits is true, and the load-balancing loss is not added here; set it to false "+
			"to train without (router_aux_loss_coef=0 of TRL)", pkg)
	}
	return nil
}

// Place is the device that a model was moved to; the zero value means not yet moved.
type Place struct{ device *torch.Device }

// Move moves a model to a device and into evaluation mode, unless it is there already.
func (p *Place) Move(m any, d torch.Device) {
	if p.device != nil && *p.device == d {
		return
	}
	nn.SetTraining(m, false)
	nn.ToDevice(m, d)
	p.device = &d
}
