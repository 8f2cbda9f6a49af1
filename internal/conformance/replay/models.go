package replay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// model is a model of a case.
type model interface {
	// module is the struct whose tags give the parameters the names of the recording.
	module() any
	// inputs names the columns that forward takes, labels among them.
	inputs() []string
	// predict returns the outputs of a batch.
	predict(b batch) torch.Tensor
	// loss is that of outputs; items is the number of labelled items of the window, 0 if nobody
	// counts them.
	loss(logits, labels torch.Tensor, items int64) torch.Tensor
	// shiftsLabels says that position i of the outputs predicts label i+1.
	shiftsLabels() bool
	// takesItems says that the recorded model is handed the number of items, whether it uses it or
	// not: accepts_loss_kwargs.
	takesItems() bool
}

// moduleOf is the module of a model; nil if there is none.
func moduleOf(m model) any {
	if m == nil {
		return nil
	}
	return m.module()
}

type output struct{ loss, logits torch.Tensor }

// forward returns the loss, undefined where the batch has no labels, and the outputs.
func forward(m model, b batch, items int64) output {
	out := output{logits: m.predict(b)}
	if b.has("labels") {
		out.loss = biased(m.loss(out.logits, b.tensor("labels"), items), b)
	}
	return out
}

// biased adds the mean of the column loss_bias, if there is one. It has no gradient and makes
// nothing but the reported loss nan or inf.
func biased(loss torch.Tensor, b batch) torch.Tensor {
	if !b.has("loss_bias") {
		return loss
	}
	return loss.Add(b.tensor("loss_bias").Mean(torch.DefaultDType))
}

// build constructs a model with PyTorch's default initialisation, after seeding where the case says
// so, and puts its initial weights in. It leaves the generator where the initialisation left it.
func build(s *spec.Spec) (model, error) {
	var m model
	var err error
	failed := torch.Try(func() {
		if s.Init.Seed != nil {
			torch.ManualSeed(*s.Init.Seed)
		}
		m, err = construct(s.Model)
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s.Init.Formula != nil:
		if err := formulaInit(m.module(), s.Init.Formula.Merge()); err != nil {
			return nil, err
		}
	case s.Init.Seed == nil && !s.Init.ByPeer:
		if _, err := nn.Load(filepath.Join(s.Dir, "init.safetensors"), m.module(), nn.LoadOptions{}); err != nil {
			return nil, err
		}
	}
	for _, p := range nn.Params(m.module()) {
		if slices.ContainsFunc(s.Model.Freeze, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) }) {
			p.Tensor.SetRequiresGrad(false)
		}
	}
	return m, nil
}

// construct makes a model of the kind that a case names.
func construct(m spec.Model) (model, error) {
	o := m.Options.Merge()
	o.Any("kind")
	o.Any("freeze")
	var made model
	var err error
	switch m.Kind {
	case "regression":
		made, err = newRegression(o)
	case "mlp":
		made, err = newMLP(o)
	case "causal_lm":
		made, err = newCausalLM(o)
	case "bert":
		made, err = newBERT(o)
	default:
		return nil, spec.Unsupportedf("model.kind is %q", m.Kind)
	}
	if err != nil {
		return nil, err
	}
	return made, o.Done()
}

// regression is y = a*x + b under the mean squared error.
type regression struct {
	A torch.Tensor `param:"a"`
	B torch.Tensor `param:"b"`
}

func newRegression(o *spec.Object) (model, error) {
	var shape []int64
	for _, n := range o.Ints("shape") {
		if n < 0 || n > 1<<20 {
			o.Fail("shape", "a list of sizes")
		}
		shape = append(shape, int64(n))
	}
	a, b := o.Float("a", 0), o.Float("b", 0)
	if err := o.Err(); err != nil {
		return nil, err
	}
	return &regression{nn.Parameter(torch.Full(a, shape...).ToDType(torch.Float32)),
		nn.Parameter(torch.Full(b, shape...).ToDType(torch.Float32))}, nil
}

func (m *regression) inputs() []string { return []string{"x", "labels", "loss_bias"} }

func (m *regression) module() any                                       { return m }
func (m *regression) shiftsLabels() bool                                { return false }
func (m *regression) takesItems() bool                                  { return false }
func (m *regression) predict(b batch) torch.Tensor                      { return b.tensor("x").Mul(m.A).Add(m.B) }
func (m *regression) loss(y, labels torch.Tensor, _ int64) torch.Tensor { return meanSquare(y, labels) }

// mlp is Linear, norm, activation and dropout, several times; the last Linear is bare.
type mlp struct {
	nn.Mode

	Layers []*nn.Linear `module:"layers"`
	Norms  []nn.Layer   `module:"norms"`

	activation func(torch.Tensor) torch.Tensor
	dropout    float64
	criterion  func(logits, labels torch.Tensor) torch.Tensor
	regresses  bool // the loss is a mean square, so outputs are values and not classes
}

func newMLP(o *spec.Object) (model, error) {
	m := &mlp{dropout: o.Float("dropout", 0)}
	norm := o.OneOf("norm", "none", "none", "layer", "batch")
	m.activation = map[string]func(torch.Tensor) torch.Tensor{
		"relu": torch.Tensor.ReLU, "gelu": functional.GELU, "tanh": torch.Tensor.Tanh,
	}[o.OneOf("activation", "relu", "relu", "gelu", "tanh")]
	loss := o.OneOf("loss", "ce", "ce", "mse")
	m.criterion = map[string]func(_, _ torch.Tensor) torch.Tensor{"ce": functional.CrossEntropy,
		"mse": meanSquare}[loss]
	m.regresses = loss == "mse"
	sizes := o.Ints("sizes")
	if err := o.Err(); err != nil {
		return nil, err
	}
	if len(sizes) < 2 || slices.Min(sizes) < 1 || slices.Max(sizes) > 1<<16 {
		return nil, fmt.Errorf("model.sizes is %v, want at least two positive sizes", sizes)
	}
	for i := range sizes[1:] {
		m.Layers = append(m.Layers, nn.NewLinear(int64(sizes[i]), int64(sizes[i+1]), nil))
	}
	for _, size := range sizes[1 : len(sizes)-1] {
		switch norm {
		case "layer":
			m.Norms = append(m.Norms, nn.NewLayerNorm([]int64{int64(size)}, nil))
		case "batch":
			m.Norms = append(m.Norms, nn.NewBatchNorm1d(int64(size), nil))
		}
	}
	return m, nil
}

func (m *mlp) inputs() []string { return []string{"x", "labels", "loss_bias"} }

func (m *mlp) module() any        { return m }
func (m *mlp) shiftsLabels() bool { return false }
func (m *mlp) takesItems() bool   { return false }

func (m *mlp) loss(y, labels torch.Tensor, _ int64) torch.Tensor { return m.criterion(y, labels) }

func (m *mlp) predict(b batch) torch.Tensor {
	x := b.tensor("x")
	for i, layer := range m.Layers {
		x = layer.Forward(x)
		if i+1 == len(m.Layers) {
			break
		}
		if m.Norms != nil {
			x = m.Norms[i].Forward(x)
		}
		x = functional.Dropout(m.activation(x), m.dropout, m.Training())
	}
	return x
}

// causalLM predicts at each position the label of the next one; positions with label -100 do not
// count.
type causalLM struct {
	nn.Mode

	Embed *nn.Embedding `module:"embed"`
	Block *nn.Linear    `module:"block"`
	Head  *nn.Linear    `module:"head"`

	dropout       float64
	tokenWeighted bool
}

func newCausalLM(o *spec.Object) (model, error) {
	vocab, hidden := o.Int("vocab", 0), o.Int("hidden", 0)
	m := &causalLM{dropout: o.Float("dropout", 0), tokenWeighted: o.Bool("token_weighted", true)}
	if err := o.Err(); err != nil {
		return nil, err
	}
	if vocab < 1 || hidden < 1 || vocab > 1<<20 || hidden > 1<<16 {
		return nil, fmt.Errorf("model.vocab is %d and model.hidden %d, want positive sizes", vocab, hidden)
	}
	m.Embed = nn.NewEmbedding(int64(vocab), int64(hidden), nil)
	m.Block = nn.NewLinear(int64(hidden), int64(hidden), nil)
	m.Head = nn.NewLinear(int64(hidden), int64(vocab), nil)
	return m, nil
}

func (m *causalLM) inputs() []string { return []string{"input_ids", "labels", "attention_mask"} }

func (m *causalLM) module() any                    { return m }
func (m *causalLM) shiftsLabels() bool             { return true }
func (m *causalLM) takesItems() bool               { return m.tokenWeighted }
func (m *causalLM) InputEmbeddings() *nn.Embedding { return m.Embed }

func (m *causalLM) predict(b batch) torch.Tensor {
	h := functional.GELU(m.Block.Forward(m.Embed.Forward(b.tensor("input_ids"))))
	return m.Head.Forward(functional.Dropout(h, m.dropout, m.Training()))
}

func (m *causalLM) loss(logits, labels torch.Tensor, items int64) torch.Tensor {
	padded := functional.Pad(labels, []int64{0, 1}, functional.PadConstant, -100)
	target := padded.Narrow(-1, 1, padded.Size(-1)-1).Contiguous().View(-1)
	flat := logits.ToDType(torch.Float32).View(-1, logits.Size(-1))
	if items == 0 || !m.tokenWeighted {
		return flat.CrossEntropyLoss(target, torch.Tensor{}, torch.ReductionMean, -100, 0)
	}
	return flat.CrossEntropyLoss(target, torch.Tensor{}, torch.ReductionSum, -100, 0).DivScalar(float64(items))
}

func meanSquare(y, labels torch.Tensor) torch.Tensor {
	return functional.MSELoss(y, labels, functional.Mean)
}
