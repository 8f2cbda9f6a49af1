package sbert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

var activations = map[string]func(torch.Tensor) torch.Tensor{
	"Identity": func(x torch.Tensor) torch.Tensor { return x },
	"Tanh":     torch.Tensor.Tanh,
	"ReLU":     torch.Tensor.ReLU,
	"GELU":     func(x torch.Tensor) torch.Tensor { return x.GELU("none") },
	"SiLU":     torch.Tensor.SiLU,
	"Sigmoid":  torch.Tensor.Sigmoid,
}

// CheckActivation returns an error if there is no activation function of that name, which is that
// of its class in torch.nn.
func CheckActivation(name string) error {
	if _, ok := activations[name]; !ok {
		return fmt.Errorf("there is no activation %q; there are %q", name, slices.Sorted(maps.Keys(activations)))
	}
	return nil
}

// Activate applies an activation function, which must exist.
func Activate(name string, x torch.Tensor) torch.Tensor { return activations[name](x) }

const (
	activationOf  = "torch.nn.modules.activation."
	identityClass = "torch.nn.modules.linear.Identity"
)

// ClassOfActivation returns the class name of an activation function in files.
func ClassOfActivation(name string) string {
	if name == "Identity" {
		return identityClass
	}
	return activationOf + name
}

// ActivationOf returns the activation function of a class name in files.
func ActivationOf(class string) (string, error) {
	name := class[strings.LastIndex(class, ".")+1:]
	if CheckActivation(name) != nil || class != ClassOfActivation(name) {
		return "", fmt.Errorf("is %s; want Identity, Tanh, ReLU, GELU, SiLU or Sigmoid of torch.nn.modules", class)
	}
	return name, nil
}
