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

// free frees the tensors at once.
func (c Collected) free() {
	for _, t := range c.Tensors {
		t.Free()
	}
}

// collector gathers the outputs of steps: OutputCollector. The tensors are joined once, when asked
// for: PyMarlin copies all there are at every step, in time with the square of their number.
type collector struct {
	tensors [][]torch.Tensor
	values  [][]any
}

// add takes the outputs of a step to the CPU.
func (c *collector) add(o Outputs) {
	for i, t := range o.Tensors {
		addTo(&c.tensors, i, copyToCPU(t).Keep())
	}
	for i, v := range o.Values {
		addTo(&c.values, i, v)
	}
}

// addTo adds a value of a step to those of its position.
func addTo[T any](lists *[][]T, i int, v T) {
	if len(*lists) <= i {
		*lists = append(*lists, nil)
	}
	(*lists)[i] = append((*lists)[i], v)
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

// put adds what was gathered before, or by another process.
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

// readCollected is what state was made of, with tensors of its own; none where there is no state.
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

// take joins what there is and begins again. The tensors belong to the caller.
func (c *collector) take() Collected {
	out := Collected{Values: c.values}
	for i, list := range c.tensors {
		if len(list) == 1 { // handed out itself
			out.Tensors = append(out.Tensors, list[0])
			c.tensors[i] = nil
			continue
		}
		torch.Scope(func() { out.Tensors = append(out.Tensors, join(list).Keep()) })
	}
	c.drop()
	return out
}

// drop frees what there is.
func (c *collector) drop() {
	for _, list := range c.tensors {
		Collected{Tensors: list}.free()
	}
	*c = collector{}
}

// join puts tensors after each other; scalars make a vector.
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
