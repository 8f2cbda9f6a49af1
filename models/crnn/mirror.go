package crnn

import (
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Mirror turns a model into one that reads mirrored pictures: its output for the mirror image of a
// picture is its previous output for the picture, with the frames in reverse. The kernels are
// reversed and the directions of the LSTMs swapped. Hezar's models for Persian read mirrored
// pictures, whose text runs from left to right.
func (m *Model) Mirror() {
	weights := map[string]torch.Tensor{}
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, t := range nn.StateDict(m) {
				name, value := t.Name, t.Tensor
				switch {
				case strings.HasSuffix(name, "conv.weight"):
					value = value.Flip(3)
				case strings.HasPrefix(name, "rnn2.weight_ih"), name == "classifier.weight":
					half := value.Size(1) / 2
					value = torch.Cat([]torch.Tensor{value.Narrow(1, half, half), value.Narrow(1, 0, half)}, 1)
				default:
					value = value.Clone()
				}
				if strings.HasPrefix(name, "rnn") {
					forward, reverse := strings.CutSuffix(name, "_reverse")
					if !reverse {
						forward += "_reverse"
					}
					name = forward
				}
				weights[name] = value
			}
			for _, t := range nn.StateDict(m) {
				t.Tensor.Copy_(weights[t.Name])
			}
		})
	})
}
