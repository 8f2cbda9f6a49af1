package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// model is the model of a case.
type model struct {
	// module is the struct whose tags give the parameters their recorded names.
	module any
	// inputs lists the columns that a forward pass accepts, including labels.
	inputs []string
	// predict returns the outputs of a batch.
	predict func(b batch) torch.Tensor
	// loss computes the loss from outputs; items is the number of labelled items in the
	// accumulation window, or 0 if they are not counted.
	loss func(logits, labels torch.Tensor, items int64) torch.Tensor
	// shiftsLabels means that position i of the outputs predicts label i+1.
	shiftsLabels bool
	// takesItems means that the recorded model is passed the number of items, whether it uses it or
	// not: accepts_loss_kwargs.
	takesItems bool
	// regresses means that the outputs are values, not classes: the loss is a mean squared error.
	regresses bool
}

type output struct{ loss, logits torch.Tensor }

// forward returns the outputs and the loss, which is undefined if the batch has no labels.
func (m *model) forward(b batch, items int64) output {
	b = b.on(nn.Params(m.module)[0].Tensor.Device())
	out := output{logits: m.predict(b)}
	if b.has("labels") {
		out.loss = biased(m.loss(out.logits, b.tensor("labels"), items), b)
	}
	return out
}

// training reports whether the model is in training mode.
func (m *model) training() bool {
	mode, ok := m.module.(interface{ Training() bool })
	return ok && mode.Training()
}

// biased adds the mean of the column loss_bias, if there is one. It has no gradient, and makes only
// the reported loss nan or inf.
func biased(loss torch.Tensor, b batch) torch.Tensor {
	if !b.has("loss_bias") {
		return loss
	}
	return loss.Add(b.tensor("loss_bias").Mean(torch.DefaultDType))
}

// build constructs a model with PyTorch's default initialisation, after seeding if the case says
// so, and loads its initial weights. The generator stays in its state after the initialisation.
func build(s *spec.Spec) *model {
	if s.Init.Seed != nil {
		torch.ManualSeed(*s.Init.Seed)
	}
	m := construct(s.Model)
	if s.Init.Seed == nil && !s.Init.ByPeer {
		initialize(s, m.module)
	}
	for _, p := range nn.Params(m.module) {
		if slices.ContainsFunc(s.Model.Freeze, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) }) {
			p.Tensor.SetRequiresGrad(false)
		}
	}
	return m
}

// initialize sets the weights of a module from the file of the case, or from a formula.
func initialize(s *spec.Spec, module any) {
	if s.Init.Formula == nil {
		spec.Must(nn.Load(filepath.Join(s.Dir, "init.safetensors"), module, nn.LoadOptions{}))
		return
	}
	spec.Check(spec.Must(recorded.FormulaOf(s.Init.Formula)).Fill(module))
}

// kinds maps the kinds of models in cases to constructors.
var kinds = map[string]func(o *spec.Object) *model{
	"regression": newRegression, "mlp": newMLP, "causal_lm": newCausalLM, "bert": newBERT,
}

// construct makes a model of the kind that a case names.
func construct(m spec.Model) *model {
	kind, ok := kinds[m.Kind]
	if !ok {
		spec.Refusef("model.kind is %q", m.Kind)
	}
	made := kind(m.Options)
	spec.Check(m.Options.Done())
	return made
}

// regression is y = a*x + b with the mean squared error.
type regression struct {
	A torch.Tensor `param:"a"`
	B torch.Tensor `param:"b"`
}

func newRegression(o *spec.Object) *model {
	var shape []int64
	for _, n := range o.Ints("shape") {
		if n < 0 || n > 1<<20 {
			o.Fail("shape", "a list of sizes")
		}
		shape = append(shape, int64(n))
	}
	a, b := o.Float("a", 0), o.Float("b", 0)
	spec.Check(o.Err())
	m := &regression{nn.Parameter(torch.Full(a, shape...).ToDType(torch.Float32)),
		nn.Parameter(torch.Full(b, shape...).ToDType(torch.Float32))}
	return &model{module: m, inputs: []string{"x", "labels", "loss_bias"}, loss: meanSquare, regresses: true,
		predict: func(b batch) torch.Tensor { return b.tensor("x").Mul(m.A).Add(m.B) }}
}

// mlp is a sequence of Linear, norm, activation and dropout; the last Linear stands alone.
type mlp struct {
	nn.Mode
	Layers []*nn.Linear `module:"layers"`
	Norms  []nn.Layer   `module:"norms"`

	activation func(torch.Tensor) torch.Tensor
	dropout    float64
}

func newMLP(o *spec.Object) *model {
	m := &mlp{dropout: o.Float("dropout", 0)}
	norm := o.OneOf("norm", "none", "none", "layer", "batch")
	m.activation = map[string]func(torch.Tensor) torch.Tensor{
		"relu": torch.Tensor.ReLU, "gelu": functional.GELU, "tanh": torch.Tensor.Tanh,
	}[o.OneOf("activation", "relu", "relu", "gelu", "tanh")]
	loss := o.OneOf("loss", "ce", "ce", "mse")
	sizes := o.Ints("sizes")
	spec.Check(o.Err())
	if len(sizes) < 2 || slices.Min(sizes) < 1 || slices.Max(sizes) > 1<<16 {
		spec.Failf("model.sizes is %v, want at least two positive sizes", sizes)
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
	made := &model{module: m, inputs: []string{"x", "labels", "loss_bias"}, predict: m.predict, loss: meanSquare,
		regresses: loss == "mse"}
	if !made.regresses {
		made.loss = func(y, labels torch.Tensor, _ int64) torch.Tensor { return functional.CrossEntropy(y, labels) }
	}
	return made
}

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

// causalLM predicts the label of the next position; positions with label -100 are ignored.
type causalLM struct {
	nn.Mode
	Embed *nn.Embedding `module:"embed"`
	Block *nn.Linear    `module:"block"`
	Head  *nn.Linear    `module:"head"`

	dropout       float64
	tokenWeighted bool
}

func newCausalLM(o *spec.Object) *model {
	vocab, hidden := int64(o.Int("vocab", 0)), int64(o.Int("hidden", 0))
	m := &causalLM{dropout: o.Float("dropout", 0), tokenWeighted: o.Bool("token_weighted", true)}
	spec.Check(o.Err())
	if vocab < 1 || hidden < 1 || vocab > 1<<20 || hidden > 1<<16 {
		spec.Failf("model.vocab is %d and model.hidden %d, want positive sizes", vocab, hidden)
	}
	m.Embed = nn.NewEmbedding(vocab, hidden, nil)
	m.Block = nn.NewLinear(hidden, hidden, nil)
	m.Head = nn.NewLinear(hidden, vocab, nil)
	return &model{module: m, inputs: []string{"input_ids", "labels", "attention_mask"}, predict: m.predict,
		loss: m.loss, shiftsLabels: true, takesItems: m.tokenWeighted}
}

// InputEmbeddings returns the embeddings that NEFTune adds noise to.
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

func meanSquare(y, labels torch.Tensor, _ int64) torch.Tensor {
	return functional.MSELoss(y, labels, functional.Mean)
}

// newBERT makes a BertForSequenceClassification from the fields of transformers' BertConfig, which
// are those of a config.json, except for num_labels.
func newBERT(o *spec.Object) *model {
	attention := o.OneOf("attn_implementation", "eager", "eager", "sdpa")
	given := o.Object("config").Merge()
	spec.Check(o.Err())
	labels := given.Int("num_labels", 0)
	spec.Check(given.Err())
	fields := without(given.Map(), "num_labels")
	if _, named := fields["model_type"]; !named {
		fields["model_type"] = "bert"
	}
	dir := spec.Must(os.MkdirTemp("", "config-"))
	defer func() { _ = os.RemoveAll(dir) }()
	spec.Check(os.WriteFile(filepath.Join(dir, "config.json"), spec.Must(json.Marshal(fields)), 0o666))
	c, err := bert.ReadConfig(dir)
	if err != nil {
		spec.Refusef("model.config: %v", err)
	}
	if labels != 0 {
		c.NumLabels = int64(labels)
		if len(c.ID2Label) != labels {
			c.ID2Label = nil
		}
	}
	c.Attention = transformer.Attention(attention)
	return classifier(spec.Must(bert.NewClassifier(c)))
}

func classifier(m classify.Model) *model {
	return &model{
		module: m, inputs: []string{"input_ids", "attention_mask", "token_type_ids", "labels"}, takesItems: true,
		loss: func(logits, labels torch.Tensor, _ int64) torch.Tensor { return m.Head().Loss(logits, labels) },
		predict: func(b batch) torch.Tensor {
			return m.Forward(b.tensor("input_ids"), b.columns["attention_mask"], b.columns["token_type_ids"])
		},
	}
}
