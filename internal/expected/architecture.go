package expected

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
)

// network is a chain of layers, some of which have names in the file of weights.
type network struct {
	layers nn.Sequential
	index  map[string]int // position of a named layer
}

// architectureEnd is how the description must end.
const architectureEnd = "no padding, stride 1; eval mode"

// parseArchitecture parses a description such as "conv1(1,8,3) relu batchnorm2d norm1 flatten
// fc1(11616,32) log_softmax; no padding, stride 1; eval mode". The name of a layer with weights
// precedes the parenthesis: conv..., fc...; the name of a norm follows it.
func parseArchitecture(text string) *network {
	body, end, _ := strings.Cut(text, ";")
	if strings.TrimSpace(end) != architectureEnd {
		unsupported("the architecture ends with %q; want %q", strings.TrimSpace(end), architectureEnd)
	}
	n := &network{index: map[string]int{}}
	channels := int64(0) // output channels of the last layer with weights
	words := strings.Fields(body)
	for i := 0; i < len(words); i++ {
		word := words[i]
		name, arguments, _ := strings.Cut(word, "(")
		var in, out, kernel int64
		switch {
		case word == "relu":
			n.layers = append(n.layers, nn.ReLU{})
		case word == "flatten":
			n.layers = append(n.layers, nn.NewFlatten())
		case word == "log_softmax":
			n.layers = append(n.layers, nn.LogSoftmax{Dim: -1})
		case (word == "batchnorm1d" || word == "batchnorm2d") && i+1 < len(words) && channels > 0:
			i++
			if word == "batchnorm1d" {
				n.add(words[i], nn.NewBatchNorm1d(channels, nil))
			} else {
				n.add(words[i], nn.NewBatchNorm2d(channels, nil))
			}
		case strings.HasPrefix(name, "conv") && scan(arguments, "%d,%d,%d)", 1, &in, &out, &kernel):
			n.add(name, nn.NewConv2d(in, out, nn.Dims{kernel}, nil))
			channels = out
		case strings.HasPrefix(name, "fc") && scan(arguments, "%d,%d)", 1, &in, &out):
			n.add(name, nn.NewLinear(in, out, nil))
			channels = out
		default:
			unsupported("the architecture has an unknown layer %q", word)
		}
	}
	return n
}

func (n *network) add(name string, l nn.Layer) {
	n.index[name] = len(n.layers)
	n.layers = append(n.layers, l)
}

// rename converts a tensor name to the position in the chain: "conv1.weight" to "0.weight".
func (n *network) rename(name string) string {
	layer, rest, _ := strings.Cut(name, ".")
	if i, ok := n.index[layer]; ok {
		return fmt.Sprintf("%d.%s", i, rest)
	}
	return name
}

// scan scans numbers from a text that must match the format exactly. The numbers must be at least
// least.
func scan(text, format string, least int64, values ...*int64) bool {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	if k, err := fmt.Sscanf(text, format, list...); err != nil || k != len(values) {
		return false
	}
	for i, v := range values {
		if *v < least {
			return false
		}
		list[i] = *v
	}
	return fmt.Sprintf(format, list...) == text
}
