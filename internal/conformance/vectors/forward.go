package vectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// pass is the result.json of a forward and backward pass.
type pass struct {
	Model struct {
		Kind   string
		Config json.RawMessage
	}
	Init        recorded.Formula
	Mode        string
	DropoutSeed *uint64 `json:"dropout_seed"`
	Loss        string
	Without     []string `json:"parameters_without_gradient"`
	Gradients   map[string]struct {
		Shape  []int64
		SHA256 string `json:"weights_sha256"`
		AbsSum string `json:"abs_sum"`
		L2     string
	} `json:"gradient_stats"`
	WithZeroInfinity    []string         `json:"eval_loss_per_sample_zero_infinity_True"`
	WithoutZeroInfinity []string         `json:"eval_loss_per_sample_zero_infinity_False"`
	Texts               []recordedText   `json:"texts"`
	LabelTexts          []string         `json:"label_texts"`
	Predict             [][]recordedText `json:"predict"`

	tensors map[string]torch.Tensor
}

// recordedText is a text that was read, or a class that was predicted, with its score.
type recordedText struct{ Text, Label, Score string }

// model makes one of Hezar's models, with weights from a formula.
func model(kind string, config json.RawMessage, init recorded.Formula, set *preprocessors.Set) *repository.Model {
	m := recorded.Hezar(kind, spec.Must(spec.ParseObject(config)).Map(), set)
	spec.Check(init.Fill(m.Module()))
	return m
}

func forward(c *check, dir string, p pass) {
	p.tensors = tensorsOf(dir)
	torch.Scope(func() {
		switch p.Model.Kind {
		case "crnn":
			p.crnn(c)
		case "bert":
			p.bert(c)
		default:
			spec.Refusef("model.kind is %q", p.Model.Kind)
		}
	})
}

func (p pass) crnn(c *check) {
	m := model(recorded.CRNN, p.Model.Config, p.Init, nil).CRNN
	x, labels := p.tensors["in.pixels"].ToDType(torch.Float32).DivScalar(255), p.tensors["in.labels"]
	p.backward(c, m, func() (logits, loss torch.Tensor) {
		logits = m.Forward(x)
		return logits, m.Loss(logits, labels)
	})
	for _, b := range nn.Buffers(m) {
		if want, ok := p.tensors["after."+b.Name]; ok {
			c.tensor(b.Name+" afterwards", b.Tensor, want)
		}
	}
	nn.SetTraining(m, false)
	torch.InferenceMode(func() { p.evaluateCRNN(c, m, m.Forward(x)) })
}

// evaluateCRNN compares the texts that the model reads, and the losses of single pictures.
func (p pass) evaluateCRNN(c *check, m *crnn.Model, logits torch.Tensor) {
	labels := p.tensors["in.labels"]
	frames, rows := logits.Size(0), logits.Size(1)
	_, best := logits.MaxDim(2, false)
	var generated []int64
	for r := range rows {
		label := crnn.Greedy(torch.Values[int64](best.Select(1, r).Contiguous()))
		generated = append(append(generated, label...), make([]int64, int(frames)-len(label))...)
	}
	c.equal("generated_ids", generated, torch.Values[int64](p.tensors["out.generated_ids"]))
	readings := m.Readings(logits)
	c.equal("the number of texts", len(readings), len(p.Texts))
	var scores []float32
	for i, r := range readings {
		scores = append(scores, float32(r.Score))
		c.equal(fmt.Sprintf("texts[%d]", i), r.Text, p.Texts[i].Text)
		c.hex(fmt.Sprintf("the score of texts[%d]", i), r.Score, p.Texts[i].Score, 0)
	}
	c.values("scores", scores, torch.Values[float32](p.tensors["out.scores"]))
	targets := labels.MaskedSelect(labels.NeScalar(0))
	lengths := labels.NeScalar(0).SumDim([]int64{1}, false, torch.Int64)
	widths := torch.Full(float64(frames), rows).ToDType(torch.Int64)
	for zero, want := range map[bool][]string{true: p.WithZeroInfinity, false: p.WithoutZeroInfinity} {
		losses := torch.Values[float32](logits.CTCLoss(targets, widths, lengths, 0, torch.ReductionNone, zero))
		c.equal("the number of losses", len(losses), len(want))
		for i := range losses {
			c.hex(fmt.Sprintf("eval_loss_per_sample_zero_infinity_%v[%d]", zero, i), float64(losses[i]), want[i], 0)
		}
	}
	for i, want := range p.LabelTexts {
		c.equal(fmt.Sprintf("label_texts[%d]", i), m.Text(torch.Values[int64](labels.Select(0, int64(i)))), want)
	}
}

func (p pass) bert(c *check) {
	m := model(recorded.BERT, p.Model.Config, p.Init, nil).Text
	run := func() torch.Tensor { // Hezar's model ignores token types
		return m.Forward(p.tensors["in.token_ids"], p.tensors["in.attention_mask"], torch.Tensor{})
	}
	p.backward(c, m, func() (logits, loss torch.Tensor) {
		logits = run()
		return logits, m.Head().Loss(logits, p.tensors["in.labels"])
	})
	nn.SetTraining(m, false)
	torch.InferenceMode(func() {
		logits := run()
		c.tensor("logits_eval", logits, p.tensors["out.logits_eval"])
		const top = 2
		compareClasses(c, "predict", repository.Classes(logits, m.Head().ID2Label, top), p.Predict)
	})
}

func compareClasses(c *check, what string, got [][]repository.Class, want [][]recordedText) {
	c.equal("the number of rows of "+what, len(got), len(want))
	for i := range got {
		c.equal(fmt.Sprintf("the number of classes of %s[%d]", what, i), len(got[i]), len(want[i]))
		for k := range got[i] {
			c.equal(fmt.Sprintf("%s[%d][%d]", what, i, k), got[i][k].Label, want[i][k].Label)
			c.hex(fmt.Sprintf("the score of %s[%d][%d]", what, i, k), got[i][k].Score, want[i][k].Score, 0)
		}
	}
}

// backward runs a forward and backward pass in the recorded mode, and compares outputs, loss and
// gradients.
func (p pass) backward(c *check, m any, run func() (logits, loss torch.Tensor)) {
	nn.SetTraining(m, p.Mode == "train")
	if p.DropoutSeed != nil {
		torch.ManualSeed(*p.DropoutSeed)
	}
	logits, loss := run()
	c.tensor("logits", logits.Detach(), p.tensors["out.logits"])
	c.hex("loss", loss.Item(), p.Loss, 0)
	loss.Backward()
	var without []string
	gradients := map[string]torch.Tensor{}
	greatest := 0.0 // scale of the rounding errors, of which gradients of key biases consist
	for _, named := range nn.Params(m) {
		if g := named.Tensor.Grad(); g.Defined() {
			gradients[named.Name] = g
			greatest = max(greatest, norm(g))
		} else {
			without = append(without, named.Name)
		}
	}
	slices.Sort(without)
	c.equal("parameters_without_gradient", strings.Join(without, " "), strings.Join(p.Without, " "))
	c.equal("the names of the gradients", slices.Sorted(maps.Keys(gradients)), slices.Sorted(maps.Keys(p.Gradients)))
	for _, name := range slices.Sorted(maps.Keys(gradients)) {
		g, stats := gradients[name], p.Gradients[name]
		if want, stored := p.tensors["grad."+name]; stored {
			c.tensor("the gradient of "+name, g, want)
		}
		c.equal("the shape of the gradient of "+name, append([]int64{}, g.Shape()...),
			append([]int64{}, stats.Shape...))
		if recorded.Hash(torch.Named{Tensor: g}) == stats.SHA256 {
			continue
		}
		c.hex("the sum of the gradient of "+name, g.ToDType(torch.Float64).Abs().Sum(torch.DefaultDType).Item(),
			stats.AbsSum, greatest)
		c.hex("the norm of the gradient of "+name, norm(g), stats.L2, greatest)
	}
}

func norm(t torch.Tensor) float64 {
	double := t.ToDType(torch.Float64)
	return double.Mul(double).Sum(torch.DefaultDType).Sqrt().Item()
}
