package engine

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Predictions are the outputs of a whole evaluation, on the host: EvalPrediction and
// PredictionOutput of Hugging Face's Trainer. Rows are in the order of the set. If the second
// dimension differs between batches, shorter ones are padded with [IgnoreIndex]. bfloat16 is
// converted to float32.
type Predictions struct {
	Logits []torch.Tensor // as in [Outputs]
	Labels []torch.Tensor
	Inputs []torch.Tensor
	Losses []float64 // one for each batch, in order; none without labels, and none in BatchMetrics.Add
	Rows   int
}

// Free releases the memory immediately rather than when the garbage collector runs.
func (p *Predictions) Free() {
	for _, list := range p.lists() {
		freeAll(*list)
	}
}

func (p *Predictions) lists() [3]*[]torch.Tensor {
	return [...]*[]torch.Tensor{&p.Logits, &p.Labels, &p.Inputs}
}

func (o *Outputs) lists() [3]*[]torch.Tensor {
	return [...]*[]torch.Tensor{&o.Logits, &o.Labels, &o.Inputs}
}

// BatchMetrics computes metrics batch by batch: compute_metrics with batch_eval_metrics in Hugging
// Face's Trainer. The predictions of a batch may be on the device and must not be kept.
type BatchMetrics interface {
	Add(batch *Predictions) error
	// Result returns the numbers of the evaluation and starts over. If an evaluation failed or was
	// interrupted, the next one calls Result and ignores the numbers.
	Result() (map[string]float64, error)
}

// collected are the outputs of the evaluation's batches so far.
type collected struct {
	lists         [3]columns // logits, labels and inputs
	rows, batches int
}

// columns has, for each position in [Outputs], the tensors of all batches.
type columns [][]torch.Tensor

func (c *collected) add(o Outputs, toHost bool) {
	for k, list := range o.lists() {
		c.lists[k].join(each(*list, func(t torch.Tensor) torch.Tensor { return t.Detach().Keep() }))
		if toHost {
			c.lists[k].toHost()
		}
	}
	c.rows += o.Rows
	c.batches++
}

func (c *columns) join(ts []torch.Tensor) {
	for len(*c) < len(ts) {
		*c = append(*c, nil)
	}
	for i, t := range ts {
		(*c)[i] = append((*c)[i], t)
	}
}

// toHost moves the tensors added since the last call to the host.
func (c columns) toHost() {
	for _, list := range c {
		for i := len(list) - 1; i >= 0 && list[i].Device().IsCUDA(); i-- {
			moved := list[i].CPU().Keep()
			list[i].Free()
			list[i] = moved
		}
	}
}

// take concatenates the batches and starts over.
func (c *collected) take() *Predictions {
	p := &Predictions{Rows: c.rows}
	for k, list := range p.lists() {
		*list = c.lists[k].concat()
	}
	c.drop()
	return p
}

func (c *collected) drop() {
	for _, list := range slices.Concat(c.lists[:]...) {
		freeAll(list)
	}
	*c = collected{}
}

func (c columns) concat() []torch.Tensor {
	var out []torch.Tensor
	for _, list := range c {
		torch.Scope(func() {
			t := padAndConcat(list).CPU()
			if t.DType() == torch.BFloat16 {
				t = t.ToDType(torch.Float32)
			}
			out = append(out, t.Keep())
		})
	}
	return out
}

// padAndConcat is nested_concat of transformers for the tensors of all batches at once.
func padAndConcat(list []torch.Tensor) torch.Tensor {
	rows, width, ragged := int64(0), int64(0), false
	list = each(list, func(t torch.Tensor) torch.Tensor {
		if t.Dim() == 0 {
			t = t.Unsqueeze(0)
		}
		return t
	})
	for _, t := range list {
		rows += t.Size(0)
		if t.Dim() > 1 {
			ragged = ragged || width != 0 && t.Size(1) != width
			width = max(width, t.Size(1))
		}
	}
	if !ragged {
		return torch.Cat(list, 0)
	}
	first := list[0]
	shape := first.Shape()
	shape[0], shape[1] = rows, width
	out := torch.TensorOptions{DType: first.DType(), Device: first.Device()}.Full(IgnoreIndex, shape...)
	at := int64(0)
	for _, t := range list {
		out.Narrow(0, at, t.Size(0)).Narrow(1, 0, t.Size(1)).Copy_(t)
		at += t.Size(0)
	}
	return out
}
