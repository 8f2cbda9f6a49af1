package pymarlin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// Outputs are what a step returns. The first tensor of a TrainStep is the loss.
type Outputs struct {
	Tensors []torch.Tensor
	Values  []any // anything that is no tensor: texts, identifiers
}

// Tensors are outputs that are tensors alone: Tensors(loss, logits).
func Tensors(ts ...torch.Tensor) Outputs { return Outputs{Tensors: ts} }

// Collected are the outputs of several steps, position by position.
type Collected struct {
	Tensors []torch.Tensor // on the CPU, one after the other along the first dimension; losses become a vector
	Values  [][]any
}

// free frees the tensors at once.
func (c Collected) free() {
	for _, t := range c.Tensors {
		t.Free()
	}
}

// collector gathers the outputs of steps: OutputCollector. The tensors are joined when they are
// asked for, once: PyMarlin copies all there are at every step, which takes time with the square of
// their number.
type collector struct {
	tensors [][]torch.Tensor
	values  [][]any
}

// add takes the outputs of a step to the CPU.
func (c *collector) add(o Outputs) {
	for i, t := range o.Tensors {
		if len(c.tensors) <= i {
			c.tensors = append(c.tensors, nil)
		}
		c.tensors[i] = append(c.tensors[i], copyToCPU(t).Keep())
	}
	for i, v := range o.Values {
		if len(c.values) <= i {
			c.values = append(c.values, nil)
		}
		c.values[i] = append(c.values[i], v)
	}
}

// copyToCPU is a tensor without history and with memory of its own, so that what a module does with
// the original later does not show.
func copyToCPU(t torch.Tensor) torch.Tensor {
	if t = t.Detach(); t.Device() == torch.CPU {
		return t.Clone()
	}
	return t.CPU()
}

// outputsKey is where a state has what has been gathered.
const outputsKey = "outputs"

// state is what there is so far, joined, as a checkpoint has it.
func (c *collector) state() State {
	all := c.take()
	c.put(all)
	return all.state()
}

// put makes what was gathered before the beginning.
func (c *collector) put(before Collected) {
	for _, t := range before.Tensors {
		c.tensors = append(c.tensors, []torch.Tensor{t})
	}
	c.values = before.Values
}

func (c Collected) state() State {
	tensors, values := make([]any, len(c.Tensors)), make([]any, len(c.Values))
	for i, t := range c.Tensors {
		tensors[i] = t
	}
	for i, list := range c.Values {
		values[i] = list
	}
	return State{"tensors": tensors, "values": values}
}

// readCollected is what state was made of, with tensors of its own; none where there is no state.
func readCollected(saved any) (c Collected, err error) {
	if saved == nil {
		return c, nil
	}
	s, _ := saved.(State)
	tensors, ok := s["tensors"].([]any)
	values, ok2 := s["values"].([]any)
	for _, v := range tensors {
		t, isTensor := v.(torch.Tensor)
		if ok = ok && isTensor; ok {
			c.Tensors = append(c.Tensors, copyToCPU(t).Keep())
		}
	}
	for _, v := range values {
		list, isList := v.([]any)
		c.Values, ok2 = append(c.Values, list), ok2 && isList
	}
	if !ok || !ok2 {
		c.free()
		return Collected{}, fmt.Errorf("%s is %T, want a dictionary with the lists tensors and values", outputsKey,
			saved)
	}
	return c, nil
}

// take joins what there is and begins anew. The tensors belong to the caller.
func (c *collector) take() Collected {
	out := Collected{Values: c.values}
	torch.Scope(func() {
		for _, list := range c.tensors {
			out.Tensors = append(out.Tensors, join(list).Keep())
		}
	})
	for _, list := range c.tensors {
		if len(list) > 1 { // a single one is handed out itself
			for _, t := range list {
				t.Free()
			}
		}
	}
	c.tensors, c.values = nil, nil
	return out
}

// drop frees what there is.
func (c *collector) drop() {
	for _, list := range c.tensors {
		for _, t := range list {
			t.Free()
		}
	}
	c.tensors, c.values = nil, nil
}

// join puts tensors after each other; scalars make a vector, but for a single one, which stays as
// it is.
func join(list []torch.Tensor) torch.Tensor {
	if len(list) == 1 {
		return list[0]
	}
	rows := make([]torch.Tensor, len(list))
	for i, t := range list {
		if t.Dim() == 0 {
			t = t.Unsqueeze(0)
		}
		rows[i] = t
	}
	return torch.Cat(rows, 0)
}
