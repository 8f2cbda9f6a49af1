package pymarlin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// Outputs are what a step returns. The first tensor of a TrainStep is the loss.
type Outputs struct {
	Tensors []torch.Tensor
	Values  []any // anything that is not a tensor: texts, identifiers
}

// Tensors returns outputs that consist only of tensors: Tensors(loss, logits).
func Tensors(ts ...torch.Tensor) Outputs { return Outputs{Tensors: ts} }

// Collected are the outputs of several steps, position by position.
type Collected struct {
	Tensors []torch.Tensor // on the CPU, concatenated along the first dimension; losses become a vector
	Values  [][]any
}

// free frees the tensors immediately.
func (c Collected) free() {
	for _, t := range c.Tensors {
		t.Free()
	}
}

// collector collects the outputs of steps: OutputCollector. Tensors are concatenated once, at the
// end. PyMarlin concatenates at every step, which takes quadratic time.
type collector struct {
	tensors [][]torch.Tensor
	values  [][]any
}

// add copies the outputs of a step to the CPU.
func (c *collector) add(o Outputs) {
	for i, t := range o.Tensors {
		addTo(&c.tensors, i, copyToCPU(t).Keep())
	}
	for i, v := range o.Values {
		addTo(&c.values, i, v)
	}
}

// addTo appends a value to the list of its position in the outputs.
func addTo[T any](lists *[][]T, i int, v T) {
	if len(*lists) <= i {
		*lists = append(*lists, nil)
	}
	(*lists)[i] = append((*lists)[i], v)
}

// copyToCPU returns a detached copy, which does not change if the module modifies the original.
func copyToCPU(t torch.Tensor) torch.Tensor {
	if t = t.Detach(); t.Device() == torch.CPU {
		return t.Clone()
	}
	return t.CPU()
}

// outputsKey is the key of the collected outputs in a state.
const outputsKey = "outputs"

// state returns the outputs so far, concatenated, as they are stored in a checkpoint.
func (c *collector) state() State {
	all := c.take()
	c.put(all)
	return all.state()
}

// put adds outputs collected earlier or by another process.
func (c *collector) put(more Collected) {
	for i, t := range more.Tensors {
		addTo(&c.tensors, i, t)
	}
	for i, list := range more.Values {
		for _, v := range list {
			addTo(&c.values, i, v)
		}
	}
}

func (c Collected) state() State {
	return State{"tensors": toAny(c.Tensors), "values": toAny(c.Values)}
}

// readCollected is the inverse of Collected.state; nil gives no outputs. The tensors are copies.
func readCollected(saved any) (c Collected, err error) {
	if saved == nil {
		return c, nil
	}
	s, _ := saved.(State)
	tensors, ok := listOf[torch.Tensor](s["tensors"])
	values, ok2 := listOf[[]any](s["values"])
	if !ok || !ok2 {
		return c, fmt.Errorf("%s is %T, want a dictionary with the lists tensors and values", outputsKey, saved)
	}
	for _, t := range tensors {
		c.Tensors = append(c.Tensors, copyToCPU(t).Keep())
	}
	c.Values = values
	return c, nil
}

// take returns the concatenated outputs and empties the collector. The tensors belong to the
// caller.
func (c *collector) take() Collected {
	out := Collected{Values: c.values}
	for i, list := range c.tensors {
		if len(list) == 1 { // returned without a copy
			out.Tensors = append(out.Tensors, list[0])
			c.tensors[i] = nil
			continue
		}
		torch.Scope(func() { out.Tensors = append(out.Tensors, join(list).Keep()) })
	}
	c.drop()
	return out
}

// drop frees the collected outputs.
func (c *collector) drop() {
	for _, list := range c.tensors {
		Collected{Tensors: list}.free()
	}
	*c = collector{}
}

// join concatenates tensors; scalars become a vector.
func join(list []torch.Tensor) torch.Tensor {
	rows := make([]torch.Tensor, len(list))
	for i, t := range list {
		if t.Dim() == 0 {
			t = t.Unsqueeze(0)
		}
		rows[i] = t
	}
	return torch.Cat(rows, 0)
}
