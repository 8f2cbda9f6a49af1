package logprob

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// View is a batch of prompts with answers on the device of a pass, B rows of L tokens.
type View struct {
	IDs, Mask torch.Tensor // [B, L]
	Answers   torch.Tensor // [B, L-1]: whether the next token belongs to an answer
	Places    torch.Tensor // where Answers has them, if only they are scored
	Tokens    []int64      // of each answer
	Predicted []int64      // of each answer, the tokens with one in front of them

	packed *inputs.Packed // the batch without its padding; nil: it is computed with it
}

// Compact has a CPU score only the tokens of answers, too. TRL scores all there, and only these on a
// GPU. Tests set it.
var Compact bool

// Compacts reports whether only the tokens of answers are scored.
func Compacts(p engine.ForwardPass) bool { return Compact || p.Device.IsCUDA() }

// NewView copies a batch to the device of a pass. answers says for each token, B·L, whether it
// belongs to an answer. If m is to be computed without padding, only those are scored.
func NewView(p engine.ForwardPass, m Model, b inputs.Batch, answers []bool) (v View) {
	rows, width := b.InputIDs.Rows, b.InputIDs.Width
	v.IDs, v.Mask, _ = b.To(p)
	if packer, ok := m.(PackedModel); ok {
		v.packed = b.Packed(p, packer)
	}
	v.Tokens, v.Predicted = make([]int64, rows), make([]int64, rows)
	next, places := make([]bool, 0, rows*(width-1)), []int64(nil)
	for row := range rows {
		own := answers[row*width:][:width]
		for i, is := range own {
			if is {
				v.Tokens[row]++
			}
			if is && i > 0 {
				v.Predicted[row]++
				places = append(places, int64(row*(width-1)+i-1))
			}
		}
		next = append(next, own[1:]...)
	}
	v.Answers = engine.Input(p, next, int64(rows), int64(width-1))
	if Compacts(p) || v.packed != nil {
		v.Places = engine.Input(p, places, int64(len(places)))
	}
	return v
}

// Score is [Score] for the tokens of the answers, [B, L-1].
func (v View) Score(m Model, o Options) Scored {
	var hidden torch.Tensor
	if packer, ok := m.(PackedModel); ok && v.packed != nil {
		hidden = packer.HiddenPacked(v.packed)
	} else {
		hidden = m.Hidden(v.IDs, v.Mask)
	}
	return Score(m, hidden, v.IDs, v.Answers, v.Places, o)
}
