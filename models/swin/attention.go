package swin

import (
	"strings"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Attention is SwinAttention: each position attends to those in its window, and to some more than
// to others by a learned number for where they are.
type Attention struct {
	nn.Mode

	Query, Key, Value, Output *nn.Linear            `module:"-"` // see OwnModules
	RelativePositionBias      *RelativePositionBias `module:"-"`

	heads       int64
	dropout     float64
	kind        transformer.Attention
	projections transformer.Projections
}

// RelativePositionBias is SwinRelativePositionBias: what is added to the products of queries and
// keys, by how far a key is above and to the left of the query.
type RelativePositionBias struct {
	Table torch.Tensor `param:"relative_position_bias_table"` // [(2·window-1)², heads]
	// Index is the row of the table for each query and key of a window, [window⁴].
	Index torch.Tensor `buffer:"relative_position_index,nonpersistent"`

	window int64
}

// OwnModules have the names of files, in the order of transformers 5, which has the table last.
func (a *Attention) OwnModules() []nn.Named {
	return []nn.Named{{Name: "self.query", Module: a.Query}, {Name: "self.key", Module: a.Key},
		{Name: "self.value", Module: a.Value}, {Name: "output.dense", Module: a.Output},
		{Name: "self", Module: a.RelativePositionBias}}
}

// toMemory maps names of modules, which are those that save_pretrained writes, to the names that
// transformers 5 uses in memory, and therefore in a state_dict saved with torch.save and in peft's
// adapters. fromMemory maps them back.
var (
	toMemory = strings.NewReplacer("attention.self.query", "attention.q_proj", "attention.self.key", "attention.k_proj",
		"attention.self.value", "attention.v_proj", "attention.self.relative_position_bias_table",
		"attention.relative_position_bias.relative_position_bias_table", "attention.output.dense", "attention.o_proj",
		"intermediate.dense", "mlp.fc1", "output.dense", "mlp.fc2")
	fromMemory = strings.NewReplacer("attention.q_proj", "attention.self.query", "attention.k_proj", "attention.self.key",
		"attention.v_proj", "attention.self.value", "attention.relative_position_bias.relative_position_bias_table",
		"attention.self.relative_position_bias_table", "attention.o_proj", "attention.output.dense",
		"mlp.fc1", "intermediate.dense", "mlp.fc2", "output.dense")
)

func newAttention(c Config, b transformer.Builder, size, heads int64) *Attention {
	projection := func() *nn.Linear { return b.LinearWith(size, size, *c.QKVBias) }
	a := &Attention{heads: heads, dropout: c.AttentionDropout, kind: c.Attention}
	a.Query, a.Key, a.Value, a.Output = projection(), projection(), projection(), b.Linear(size, size)
	side := 2*c.WindowSize - 1
	a.RelativePositionBias = &RelativePositionBias{window: c.WindowSize, Index: nn.Buffer(relativeIndex(c.WindowSize)),
		Table: nn.Parameter(torch.TensorOptions{DType: b.DType}.Zeros(side*side, heads))}
	return a
}

// forward maps the positions of windows, [windows, window², C], to the same shape. The mask is
// that of [layout.mask].
func (a *Attention) forward(x, mask torch.Tensor) torch.Tensor {
	bias := a.RelativePositionBias.forward()
	if mask.Defined() {
		bias = bias.Add(mask)
	}
	o := transformer.AttendOptions{}
	if a.Training() {
		o.Dropout = a.dropout
	}
	size := x.Size(2) / a.heads
	split := func(x torch.Tensor) torch.Tensor { return transformer.SplitHeads(x, size) }
	q, k, v := a.projections.Forward(x, a.Query, a.Key, a.Value)
	return a.Output.Forward(a.kind.AttendHeads(split(q), split(k), split(v),
		transformer.Mask{Padding: bias, WideSoftmax: true}, o))
}

// DrawWeights sets the table to 0: transformer.WeightDrawer.
func (r *RelativePositionBias) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("relative_position_bias_table", r.Table) {
		initialize.Zeros(r.Table)
	}
}

// forward returns the number for each query and key of a window, [1, heads, window², window²].
func (r *RelativePositionBias) forward() torch.Tensor {
	area := r.window * r.window
	return r.Table.At(r.Index).View(area, area, -1).Permute(2, 0, 1).Contiguous().Unsqueeze(0)
}

// relativeIndex returns RelativePositionBias.Index for windows of w rows and columns.
func relativeIndex(w int64) torch.Tensor {
	rows := make([]int64, 0, w*w*w*w)
	for query := range w * w {
		for key := range w * w {
			down, right := query/w-key/w, query%w-key%w
			rows = append(rows, (down+w-1)*(2*w-1)+right+w-1)
		}
	}
	return torch.From(rows, int64(len(rows)))
}
