package expected

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// training is an entry of "optimizers": updates of a fixed network of two layers in float64.
type training struct {
	Optimizer string
	Options   json.RawMessage
	Peer      [][][]float64     `json:"peer_after_iteration"` // the parameters after iterations 0, 100, ...
	Exact     map[string]moment `json:"exact_after_step"`     // by the number of the iteration
}

type moment struct {
	Loss   *float64    `json:"loss_before_step"`
	Params [][]float64 // row-major, in the order of layerParams
}

// layerParams are the parameters of the network that all files of this form train.
var layerParams = []struct {
	name  string
	shape []int64
}{{"0.weight", []int64{3, 2}}, {"0.bias", []int64{3}}, {"2.weight", []int64{1, 3}}, {"2.bias", []int64{1}}}

const twoLayers = "Sequential(Linear(2,3), Sigmoid, Linear(3,1), Sigmoid), float64; loss = sum of outputs; input "

// How closely runs from the same numbers agree, and how closely those of the peer, whose initial
// weights were not rounded.
const (
	exactRTol, exactATol = 1e-9, 1e-12
	peerRTol, peerATol   = 1e-3, 5e-4
)

func readOptimizers(d *document) ([]Entry, error) {
	var initial map[string][]float64
	if err := json.Unmarshal(d.fields["initial_parameters"], &initial); err != nil {
		return nil, fmt.Errorf("field %q: %w", "initial_parameters", err)
	}
	var model string
	_ = json.Unmarshal(d.fields["model"], &model) // no text is no known network either
	return entriesOf(d, "optimizers", func(_ string, c training) error {
		rest, ok := strings.CutPrefix(model, twoLayers)
		var input [][]float64
		if !ok || json.NewDecoder(strings.NewReader(rest)).Decode(&input) != nil || len(input) == 0 {
			return unsupported("the model is %q; want %q and rows of two numbers", model, twoLayers)
		}
		if err := torch.Load(); err != nil {
			return unsupported("%v", err)
		}
		return c.run(initial, input)
	})
}

func (c training) run(initial map[string][]float64, input [][]float64) error {
	var err error
	torch.Scope(func() { err = c.train(initial, input) })
	return err
}

func (c training) train(initial map[string][]float64, input [][]float64) error {
	var flat []float64
	for _, row := range input {
		if len(row) != 2 {
			return unsupported("a row of the input is %v; want two numbers", row)
		}
		flat = append(flat, row...)
	}
	x := torch.From(flat, int64(len(input)), 2)
	params, err := initialParams(initial)
	if err != nil {
		return err
	}
	step, err := c.stepper(params)
	if err != nil {
		return err
	}
	last, err := c.last()
	if err != nil {
		return err
	}
	w := func(i int) torch.Tensor { return params[i].Tensor }
	for k := range last + 1 {
		torch.Scope(func() {
			for _, p := range params {
				p.Tensor.SetGrad(torch.Tensor{})
			}
			loss := x.Linear(w(0), w(1)).Sigmoid().Linear(w(2), w(3)).Sigmoid().Sum(torch.DefaultDType)
			loss.Backward()
			if want, ok := c.Exact[strconv.Itoa(k)]; ok && want.Loss != nil {
				err = near(fmt.Sprintf("iteration %d: loss", k), loss.Item(), *want.Loss, exactRTol, exactATol)
			}
			if err == nil {
				step()
				err = c.compare(k, params)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// last is the last iteration that anything is known of.
func (c training) last() (int, error) {
	last := 100*len(c.Peer) - 100
	for key := range c.Exact {
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 {
			return 0, unsupported("exact_after_step has the key %q; want the number of an iteration", key)
		}
		last = max(last, n)
	}
	if last < 0 {
		return 0, unsupported("the entry has nothing to compare")
	}
	return last, nil
}

// compare holds the parameters after an iteration against what is known of it.
func (c training) compare(k int, params []torch.Named) error {
	check := func(whose string, want [][]float64, rtol, atol float64) error {
		if len(want) != len(params) {
			return unsupported("iteration %d has %d parameters, want %d", k, len(want), len(params))
		}
		for i, p := range params {
			got := torch.Values[float64](p.Tensor.Detach().Reshape(-1))
			if len(got) != len(want[i]) {
				return unsupported("iteration %d: %s has %d values, want %d", k, p.Name, len(want[i]), len(got))
			}
			at := func(j int) float64 { return got[j] }
			if err := allNear(fmt.Sprintf("iteration %d: %s%s", k, whose, p.Name), at, want[i], rtol,
				atol); err != nil {
				return err
			}
		}
		return nil
	}
	if want, ok := c.Exact[strconv.Itoa(k)]; ok {
		if err := check("", want.Params, exactRTol, exactATol); err != nil {
			return err
		}
	}
	if k%100 == 0 && k/100 < len(c.Peer) {
		return check("the peer's ", c.Peer[k/100], peerRTol, peerATol)
	}
	return nil
}

// initialParams finds the parameters. A key may say more after the name: "0.weight (3x2, row
// major)".
func initialParams(initial map[string][]float64) ([]torch.Named, error) {
	var params []torch.Named
	for _, p := range layerParams {
		size := int64(1)
		for _, n := range p.shape {
			size *= n
		}
		for key, values := range initial {
			name, _, _ := strings.Cut(key, " ")
			if name == p.name && int64(len(values)) == size {
				params = append(params, torch.Named{Name: p.name, Tensor: torch.From(values,
					p.shape...).RequiresGrad()})
			}
		}
	}
	if len(params) != len(layerParams) || len(initial) != len(layerParams) {
		return nil, unsupported("initial_parameters has %q; want 0.weight, 0.bias, 2.weight and 2.bias with 6, 3, 3 "+
			"and 1 values", names(initial))
	}
	return params, nil
}

// stepper makes the optimizer and gives its step at the rate of the options.
func (c training) stepper(params []torch.Named) (func(), error) {
	if c.Optimizer == "LBFGS" { // as the peer's test has it, the closure is a constant
		o, err := lbfgsOf(c.Options)
		if err != nil {
			return nil, err
		}
		opt, err := o.Build(params)
		if err != nil {
			return nil, unsupported("%v", err)
		}
		return func() { opt.Step(func() float64 { return 10 }) }, nil
	}
	b, err := builderOf(c.Optimizer, c.Options)
	if err != nil {
		return nil, err
	}
	opt, err := b.Build([]optim.Group{{Params: params}})
	if err != nil {
		return nil, unsupported("%v", err)
	}
	return func() { opt.Step(b.LearningRate()) }, nil
}
