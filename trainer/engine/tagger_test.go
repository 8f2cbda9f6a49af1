package engine_test

import (
	"math"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// tagger is the model of testdata/hf.py: it predicts a class for each token.
type tagger struct {
	Embed  *nn.Embedding `module:"embed"`
	Hidden *nn.Linear    `module:"hidden"`
	Out    *nn.Linear    `module:"out"`
	Drop   *nn.Dropout   `module:"drop"`
	Spare  *nn.Linear    `module:"spare"` // only in a branching tagger, and never used

	checkpointing bool
}

const taggerVocab, taggerDim, taggerClasses = 20, 6, 4

func newTagger(dropout float64) *tagger {
	return &tagger{Embed: nn.NewEmbedding(taggerVocab, taggerDim, nil), Hidden: nn.NewLinear(taggerDim, taggerDim, nil),
		Out: nn.NewLinear(taggerDim, taggerClasses, nil), Drop: nn.NewDropout(dropout)}
}

// newBranching makes a tagger that uses its hidden layer only for every other batch.
func newBranching(dropout float64) *tagger {
	m := newTagger(dropout)
	m.Spare = nn.NewLinear(taggerDim, taggerDim, nil)
	return m
}

func (m *tagger) InputEmbeddings() *nn.Embedding   { return m.Embed }
func (m *tagger) SetGradientCheckpointing(on bool) { m.checkpointing = on }
func (m *tagger) middle(x torch.Tensor) torch.Tensor {
	return m.Drop.Forward(m.Hidden.Forward(x).Tanh())
}
func (m *tagger) Forward(x torch.Tensor) torch.Tensor {
	if m.Spare != nil && int64(x.Select(0, 0).Select(0, 0).Item())%2 != 0 {
		return m.Out.Forward(m.Drop.Forward(m.Embed.Forward(x).Tanh()))
	}
	return m.Out.Forward(m.between(m.Embed.Forward(x)))
}

func (m *tagger) between(x torch.Tensor) torch.Tensor {
	if !m.checkpointing {
		return m.middle(x)
	}
	return torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{m.middle(in[0])} }, x)[0]
}

// tokens is a row of the tagger's data, and tokenBatch a batch that is padded to its longest row.
type tokens struct {
	row         int
	ids, labels []int64
}

type tokenBatch struct {
	rows        []int
	ids, labels []int64
	width       int
}

func collateTokens(samples []tokens) (tokenBatch, error) {
	var b tokenBatch
	for _, s := range samples {
		b.width = max(b.width, len(s.ids))
	}
	for _, s := range samples {
		b.rows = append(b.rows, s.row)
		b.ids, b.labels = append(b.ids, s.ids...), append(b.labels, s.labels...)
		for range b.width - len(s.ids) {
			b.ids, b.labels = append(b.ids, 0), append(b.labels, engine.IgnoreIndex)
		}
	}
	return b, nil
}

// tagTask is the task of training a tagger on tokens.
type tagTask struct{ model *tagger }

func (t *tagTask) Model() any                                   { return t.model }
func (t *tagTask) Collate(samples []tokens) (tokenBatch, error) { return collateTokens(samples) }

func (t *tagTask) Predict(p engine.ForwardPass, b tokenBatch) engine.Outputs {
	rows, width := int64(len(b.rows)), int64(b.width)
	return engine.Outputs{
		Logits: []torch.Tensor{t.model.Forward(engine.Input(p, b.ids, rows, width))},
		Labels: []torch.Tensor{engine.Input(p, b.labels, rows, width)}, Rows: len(b.rows),
	}
}

func crossEntropy(o engine.Outputs, r torch.Reduction) torch.Tensor {
	return o.Logits[0].Reshape(-1, taggerClasses).CrossEntropyLoss(o.Labels[0].Reshape(-1), torch.Tensor{}, r,
		engine.IgnoreIndex, 0)
}

func (t *tagTask) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(crossEntropy(o, torch.ReductionMean), o.Rows)
}

func (t *tagTask) Loss(p engine.ForwardPass, b tokenBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

func (t *tagTask) CountTokens(b tokenBatch) (all, nonPadding int64) {
	for _, id := range b.ids {
		if id != 0 {
			nonPadding++
		}
	}
	return int64(len(b.ids)), nonPadding
}

// countingTask averages over the labels of the whole window.
type countingTask struct{ tagTask }

func (t *countingTask) CountItems(b tokenBatch) (n int64) {
	for _, l := range b.labels {
		if l != engine.IgnoreIndex {
			n++
		}
	}
	return n
}

func (t *countingTask) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	return summed(p, o)
}
func (t *countingTask) Loss(p engine.ForwardPass, b tokenBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

func summed(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.PerItem(crossEntropy(o, torch.ReductionSum).DivScalar(p.Items), o.Rows)
}

// twiceTask trains on each batch and on the batch without its last column.
type twiceTask struct{ tagTask }

func (t *twiceTask) TrainingStep(s engine.Training[tokenBatch], b tokenBatch) torch.Tensor {
	return s.Backward(s.Loss(b)).Add(s.Backward(s.Loss(b.cut(1))))
}

// cut returns the batch without its last columns.
func (b tokenBatch) cut(columns int) tokenBatch {
	out := tokenBatch{rows: b.rows, width: b.width - columns}
	for i := range b.rows {
		out.ids = append(out.ids, b.ids[i*b.width:i*b.width+out.width]...)
		out.labels = append(out.labels, b.labels[i*b.width:i*b.width+out.width]...)
	}
	return out
}

// right is compute_metrics of testdata/hf.py.
func right(p *engine.Predictions) (map[string]float64, error) {
	equal := p.Logits[0].ArgMax(-1, false).Eq(p.Labels[0]).Sum(torch.DefaultDType).Item()
	return map[string]float64{"right": equal, "width": float64(p.Logits[0].Size(1))}, nil
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
