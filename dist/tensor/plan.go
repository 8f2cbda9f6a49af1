package tensor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Style is how a [nn.Linear] is divided.
type Style uint8

// The styles, under PyTorch's names without Parallel.
const (
	// Colwise divides the output features: the input is whole, and each process computes a part of
	// the last dimension of the output. The next Linear is Rowwise.
	Colwise Style = iota + 1
	// Rowwise divides the input features, which are those of a Colwise layer; the output is whole.
	Rowwise
)

func (s Style) String() string {
	if s < Colwise || s > Rowwise {
		return fmt.Sprintf("Style(%d)", uint8(s))
	}
	return [...]string{"Colwise", "Rowwise"}[s-1]
}

// Plan says which [nn.Linear] layers of a model are divided, by patterns of their names. Patterns
// are those of [nn.Freeze]: "*.up" matches every layer of that name. They match no other modules.
type Plan map[string]Style

// Heads is attention that can compute a part of its heads. Its q, k and v are Colwise, and the
// layer that follows is Rowwise. SelfAttention of packages models/transformer and
// models/distilbert is one.
//
// Attention without these methods must not assume a number of heads, but compute it from the
// number of features: x.View(batch, length, -1, sizeOfHead).
type Heads interface {
	// DivideHeads makes the following passes compute one of n equal parts of the heads. input is
	// applied once to the common input of all Colwise Linears directly in the module. With n = 1
	// and a nil input, all heads are computed as usual. It fails if the heads cannot be divided.
	DivideHeads(n int64, input func(x torch.Tensor) torch.Tensor) error
}

// layer is a Linear to be divided.
type layer struct {
	name   string
	linear *nn.Linear
	style  Style
	part   *nn.LinearPart
	pieces []*piece
}

// layers returns the layers of the plan, in the order of the model's modules.
func (p Plan) layers(model any) (list []*layer, err error) {
	patterns := slices.Sorted(maps.Keys(p))
	for _, pattern := range patterns {
		if s := p[pattern]; s != Colwise && s != Rowwise {
			return nil, fmt.Errorf("tensor: the plan has %s for %q; want Colwise or Rowwise", s, pattern)
		}
	}
	used, last, linears := map[string]bool{}, "", 0
	for _, n := range nn.Modules(model) {
		linear, ok := n.Module.(*nn.Linear)
		if !ok {
			continue
		}
		last, linears = n.Name, linears+1
		by := ""
		for _, pattern := range patterns {
			matched, err := path.Match(pattern, n.Name)
			if err != nil {
				return nil, fmt.Errorf("tensor: pattern %q of the plan: %w", pattern, err)
			}
			if !matched {
				continue
			}
			used[pattern] = true
			if by != "" && p[by] != p[pattern] {
				return nil, fmt.Errorf("tensor: %s is %s by %q of the plan and %s by %q; want one", n.Name, p[by], by,
					p[pattern], pattern)
			}
			by = pattern
		}
		if by != "" {
			list = append(list, &layer{name: cmp.Or(n.Name, "the model"), linear: linear, style: p[by]})
		}
	}
	for _, pattern := range patterns {
		if !used[pattern] {
			return nil, fmt.Errorf("tensor: no nn.Linear's name matches %q of the plan; there are %d, the last is %q",
				pattern, linears, last)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("tensor: the plan is empty: nothing would be divided")
	}
	return list, nil
}

// check refuses layers that cannot be divided equally among world processes.
func check(layers []*layer, model any, world int) error {
	if parts := nn.LinearParts(model); len(parts) > 0 {
		return fmt.Errorf("tensor: the model is divided already: %s", parts[0])
	}
	names := map[torch.Tensor][]string{}
	for _, t := range nn.StateDict(model) {
		names[t.Tensor] = append(names[t.Tensor], t.Name)
	}
	for _, l := range layers {
		if l.linear.Quantized() != nil {
			return fmt.Errorf("tensor: the weight of %s is quantized, and such a layer cannot be divided: leave it out of the "+
				"plan", l.name)
		}
		if l.linear.Adapter() != nil {
			return fmt.Errorf("tensor: %s has an adapter (models/lora), and such a layer cannot be divided: merge the adapter, "+
				"or leave the layer out of the plan", l.name)
		}
		for _, t := range []torch.Tensor{l.linear.Weight, l.linear.Bias} {
			if all := names[t]; t.Defined() && len(all) > 1 {
				return fmt.Errorf("tensor: %s is one parameter under several names, which cannot be divided: leave its "+
					"layers out of the plan", strings.Join(all, ", "))
			}
		}
		features, what := l.linear.Weight.Size(0), "output"
		if l.style == Rowwise {
			features, what = l.linear.Weight.Size(1), "input"
		}
		if features%int64(world) != 0 {
			return fmt.Errorf("tensor: %s has %d %s features, of which %d processes cannot have equal parts; want a "+
				"multiple of %d", l.name, features, what, world, world)
		}
	}
	return nil
}
