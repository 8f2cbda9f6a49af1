package expected

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// training is an entry of "optimizers": updates of a fixed network with two layers in float64.
type training struct {
	Optimizer string
	Options   json.RawMessage
	Peer      [][][]float64     `json:"peer_after_iteration"` // the parameters after iterations 0, 100, ...
	Exact     map[string]moment `json:"exact_after_step"`     // by number of the iteration
}

type moment struct {
	Loss   *float64    `json:"loss_before_step"`
	Params [][]float64 // row-major, in the order of layerParams
}

// layerParams are the parameters of the network that is trained in all files of this format.
var layerParams = []struct {
	name  string
	shape []int64
}{{"0.weight", []int64{3, 2}}, {"0.bias", []int64{3}}, {"2.weight", []int64{1, 3}}, {"2.bias", []int64{1}}}

const twoLayers = "Sequential(Linear(2,3), Sigmoid, Linear(3,1), Sigmoid), float64; loss = sum of outputs; input "

// Tolerances for runs from identical numbers, and for those of the peer, whose initial weights are
// only known rounded.
const (
	exactRTol, exactATol = 1e-9, 1e-12
	peerRTol, peerATol   = 1e-3, 5e-4
)

func readOptimizers(d *document) []Entry {
	initial := fieldOf[map[string][]float64](d, "initial_parameters")
	var model string
	_ = json.Unmarshal(d.fields["model"], &model) // if it is not a string, the network is unknown as well
	return entriesOf(d, "optimizers", func(_ string, c training) {
		rest, ok := strings.CutPrefix(model, twoLayers)
		var input [][]float64
		if !ok || json.NewDecoder(strings.NewReader(rest)).Decode(&input) != nil || len(input) == 0 {
			unsupported("the model is %q; want %q and rows of two numbers", model, twoLayers)
		}
		recorded.Load()
		torch.Scope(func() { c.run(initial, input) })
	})
}

func (c training) run(initial map[string][]float64, input [][]float64) {
	for _, row := range input {
		if len(row) != 2 {
			unsupported("a row of the input is %v; want two numbers", row)
		}
	}
	x := torch.From(slices.Concat(input...), int64(len(input)), 2)
	params := initialParams(initial)
	step := c.stepper(params)
	w := func(i int) torch.Tensor { return params[i].Tensor }
	for k := range c.last() + 1 {
		torch.Scope(func() {
			for _, p := range params {
				p.Tensor.SetGrad(torch.Tensor{})
			}
			loss := x.Linear(w(0), w(1)).Sigmoid().Linear(w(2), w(3)).Sigmoid().Sum(torch.DefaultDType)
			loss.Backward()
			if want, ok := c.Exact[strconv.Itoa(k)]; ok && want.Loss != nil {
				near(fmt.Sprintf("iteration %d: loss", k), loss.Item(), *want.Loss, exactRTol, exactATol)
			}
			step()
			c.compare(k, params)
		})
	}
}

// last returns the last iteration with a known result.
func (c training) last() int {
	last := 100*len(c.Peer) - 100
	for key := range c.Exact {
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 {
			unsupported("exact_after_step has the key %q; want the number of an iteration", key)
		}
		last = max(last, n)
	}
	if last < 0 {
		unsupported("the entry has nothing to compare")
	}
	return last
}

// compare compares the parameters after an iteration with the known ones.
func (c training) compare(k int, params []torch.Named) {
	check := func(whose string, want [][]float64, rtol, atol float64) {
		if len(want) != len(params) {
			unsupported("iteration %d has %d parameters, want %d", k, len(want), len(params))
		}
		for i, p := range params {
			got := torch.Values[float64](p.Tensor.Detach().Reshape(-1))
			if len(got) != len(want[i]) {
				unsupported("iteration %d: %s has %d values, want %d", k, p.Name, len(want[i]), len(got))
			}
			allNear(fmt.Sprintf("iteration %d: %s%s", k, whose, p.Name), at(got), want[i], rtol, atol)
		}
	}
	if want, ok := c.Exact[strconv.Itoa(k)]; ok {
		check("", want.Params, exactRTol, exactATol)
	}
	if k%100 == 0 && k/100 < len(c.Peer) {
		check("the peer's ", c.Peer[k/100], peerRTol, peerATol)
	}
}

// initialParams makes the parameters. The name in a key may be followed by a description: "0.weight
// (3x2, row major)".
func initialParams(initial map[string][]float64) (params []torch.Named) {
	for _, p := range layerParams {
		size := int64(1)
		for _, n := range p.shape {
			size *= n
		}
		for key, values := range initial {
			if name, _, _ := strings.Cut(key, " "); name == p.name && int64(len(values)) == size {
				params = append(params, torch.Named{Name: name, Tensor: torch.From(values, p.shape...).RequiresGrad()})
			}
		}
	}
	if len(params) != len(layerParams) || len(initial) != len(layerParams) {
		unsupported("initial_parameters has %q; want 0.weight, 0.bias, 2.weight and 2.bias with 6, 3, 3 and 1 values",
			names(initial))
	}
	return params
}

// stepper makes the optimizer and returns its step function, at the rate in the options.
func (c training) stepper(params []torch.Named) func() {
	if c.Optimizer == "LBFGS" { // the closure returns a constant, as in the peer's test
		opt := supported(lbfgsOf(c.Options).Build(params))
		return func() { opt.Step(func() float64 { return 10 }) }
	}
	b := builderOf(c.Optimizer, c.Options)
	opt := supported(b.Build([]optim.Group{{Params: params}}))
	return func() { opt.Step(b.LearningRate()) }
}

// optionsOf parses the keyword arguments of an optimizer, which may be missing.
func optionsOf(raw json.RawMessage) *spec.Object {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	return supported(spec.ParseObject(raw))
}

// builderOf returns the builder for an optimizer of torch.optim with keyword arguments.
func builderOf(name string, options json.RawMessage) optim.Builder {
	return supported(recorded.Optimizer(name, optionsOf(options)))
}

// lbfgsOf returns the settings of LBFGS, which is not a Builder, from its keyword arguments.
func lbfgsOf(options json.RawMessage) (b optim.LBFGS) {
	o := optionsOf(options)
	b.StrongWolfe = o.OneOf("line_search_fn", "", "strong_wolfe") != ""
	o.Fill(&b)
	return supported(b, o.Done())
}
