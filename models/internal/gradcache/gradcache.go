// Package gradcache trains on batches that do not fit into memory although their loss needs them
// whole: GradCache, the cached losses of sentence-transformers.
package gradcache

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Loss computes the loss of a batch that goes through a model in n mini-batches.
//
// It first calls forward for each of them without a graph. Then it calls backward with the results,
// which must compute the loss, run backward passes down to the results, and return the detached
// loss. The backward pass of the value that Loss returns calls forward again, one mini-batch after
// the other, with the same random numbers as the first time. So memory for the graph of only one
// mini-batch is needed. Nothing that forward captures may end with the scope of the caller.
func Loss(d torch.Device, model any, n int, forward func(i int) torch.Tensor,
	backward func(results []torch.Tensor) torch.Tensor) torch.Tensor {
	results, states := make([]torch.Tensor, n), make([]randomState, n)
	torch.NoGrad(func() {
		for i := range results {
			states[i] = randomStateOf(d)
			results[i] = forward(i)
		}
	})
	for i, x := range results {
		results[i] = x.Detach().RequiresGrad()
	}
	loss := backward(results)
	if !slices.ContainsFunc(nn.Params(model), func(p torch.Named) bool { return p.Tensor.NeedsGrad() }) {
		return loss // the engine says that nothing is trained
	}
	// Each mini-batch adds to the gradients when its checkpoint is computed again. The checkpoint of
	// a mini-batch takes the result of the next one, so that they are reached in their order, which
	// is that of the original.
	loss = loss.RequiresGrad()
	for i := n - 1; i >= 0; i-- {
		gradient := wide(results[i].Grad()).Keep()
		loss = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
			if !torch.IsGradEnabled() {
				return []torch.Tensor{in[0].Clone()}
			}
			states[i].restore()
			x := wide(forward(i))
			return []torch.Tensor{in[0].Add(x.Flatten(0, -1).Dot(gradient.Flatten(0, -1)))}
		}, loss)[0]
	}
	return loss
}

// wide converts numbers of 16 bits to float32.
func wide(x torch.Tensor) torch.Tensor {
	if d := x.DType(); d == torch.Float16 || d == torch.BFloat16 {
		return x.ToDType(torch.Float32)
	}
	return x
}

// randomState is the state of the generators that a pass on a device draws from.
type randomState struct {
	devices []torch.Device
	states  [][]byte
}

func randomStateOf(d torch.Device) (s randomState) {
	s.devices = []torch.Device{torch.CPU}
	if d.IsCUDA() {
		s.devices = append(s.devices, d)
	}
	for _, d := range s.devices {
		s.states = append(s.states, torch.DefaultGenerator(d).State())
	}
	return s
}

func (s randomState) restore() {
	for i, d := range s.devices {
		torch.DefaultGenerator(d).SetState(s.states[i])
	}
}

// ValidateOptions refuses options that do not work with a cached loss of a task of package pkg.
func ValidateOptions(pkg string, loss any, o engine.Options) error {
	switch {
	case o.Loss != nil:
		return fmt.Errorf("%s: Options.Loss is set, but a %T caches gradients of its own; want one of the two", pkg, loss)
	case o.Sharding != 0:
		return fmt.Errorf("%s: Options.Sharding is %v, but a %T runs the model again in the backward pass; leave it out, or "+
			"take a MultipleNegativesRankingLoss", pkg, o.Sharding, loss)
	}
	return nil
}

// ValidateGroup refuses several processes for a cached loss of a task of package pkg.
func ValidateGroup(pkg string, loss any, world int) error {
	return fmt.Errorf("%s: a %T adds to the gradient of each weight several times in a backward pass, but %d processes "+
		"average gradients as soon as they are there; want one process, or a MultipleNegativesRankingLoss", pkg, loss, world)
}

// NoGraph tells the engine that passes with a cached loss cannot be recorded in a graph.
func NoGraph(p engine.ForwardPass, loss any) {
	p.NoGraph(fmt.Sprintf("a %T runs the model again in the backward pass", loss))
}
