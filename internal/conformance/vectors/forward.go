package vectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// pass is result.json of a forward and backward pass.
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
}

// recordedText is a text that was read, or a class that was found, and its score.
type recordedText struct{ Text, Label, Score string }

func forward(c *check, dir string, text []byte) error {
	if err := loaded(); err != nil {
		return err
	}
	var p pass
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	f, err := safetensors.Open(filepath.Join(dir, "case.safetensors"))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	failed := torch.Try(func() {
		torch.Scope(func() {
			tensors := map[string]torch.Tensor{}
			for _, t := range f.Tensors() {
				if tensors[t.Name], err = tensorio.Read(f.Reader, t.Name); err != nil {
					return
				}
			}
			switch p.Model.Kind {
			case "crnn":
				err = passCRNN(c, p, tensors)
			case "bert":
				err = passBERT(c, p, tensors)
			default:
				err = spec.Unsupportedf("model.kind is %q", p.Model.Kind)
			}
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

func passCRNN(c *check, p pass, tensors map[string]torch.Tensor) error {
	config, err := mapping(p.Model.Config)
	if err != nil {
		return err
	}
	m, err := newCRNN(config, p.Init, nil)
	if err != nil {
		return err
	}
	x, labels := tensors["in.pixels"].ToDType(torch.Float32).DivScalar(255), tensors["in.labels"]
	p.backward(c, m, tensors, func() (logits, loss torch.Tensor) {
		logits = m.Forward(x)
		return logits, m.Loss(logits, labels)
	})
	for name, want := range tensors {
		if name, ok := strings.CutPrefix(name, "after."); ok {
			for _, b := range nn.Buffers(m) {
				if b.Name == name {
					c.tensor(name+" afterwards", b.Tensor, want)
				}
			}
		}
	}
	nn.SetTraining(m, false)
	torch.InferenceMode(func() { evaluateCRNN(c, p, m, tensors, x) })
	return nil
}

// evaluateCRNN compares what the model reads, and the losses of single pictures.
func evaluateCRNN(c *check, p pass, m *crnn.Model, tensors map[string]torch.Tensor, x torch.Tensor) {
	logits, labels := m.Forward(x), tensors["in.labels"]
	frames, rows := logits.Size(0), logits.Size(1)
	_, best := logits.MaxDim(2, false)
	ids := torch.Values[int64](best)
	var generated []int64
	for r := range rows {
		column := make([]int64, frames)
		for f := range frames {
			column[f] = ids[f*rows+r]
		}
		label := crnn.Greedy(column)
		generated = append(append(generated, label...), make([]int64, int(frames)-len(label))...)
	}
	c.equal("generated_ids", generated, torch.Values[int64](tensors["out.generated_ids"]))
	var scores []float32
	for i, r := range m.Readings(logits) {
		scores = append(scores, float32(r.Score))
		if i < len(p.Texts) {
			c.equal(fmt.Sprintf("texts[%d]", i), r.Text, p.Texts[i].Text)
			c.hex(fmt.Sprintf("the score of texts[%d]", i), r.Score, p.Texts[i].Score)
		}
	}
	c.equal("the number of texts", len(scores), len(p.Texts))
	c.values("scores", scores, torch.Values[float32](tensors["out.scores"]))
	targets := labels.MaskedSelect(labels.NeScalar(0))
	lengths := labels.NeScalar(0).SumDim([]int64{1}, false, torch.Int64)
	widths := torch.Full(float64(frames), rows).ToDType(torch.Int64)
	for zero, want := range map[bool][]string{true: p.WithZeroInfinity, false: p.WithoutZeroInfinity} {
		losses := torch.Values[float32](logits.CTCLoss(targets, widths, lengths, 0, torch.ReductionNone, zero))
		c.equal("the number of losses", len(losses), len(want))
		for i := range min(len(losses), len(want)) {
			c.hex(fmt.Sprintf("eval_loss_per_sample_zero_infinity_%v[%d]", zero, i), float64(losses[i]), want[i])
		}
	}
	width := labels.Size(1)
	flat := torch.Values[int64](labels)
	for i, want := range p.LabelTexts {
		c.equal(fmt.Sprintf("label_texts[%d]", i), m.Text(flat[int64(i)*width:][:width]), want)
	}
}

func passBERT(c *check, p pass, tensors map[string]torch.Tensor) error {
	config, err := mapping(p.Model.Config)
	if err != nil {
		return err
	}
	m, err := newBERT(config, p.Init)
	if err != nil {
		return err
	}
	run := func() torch.Tensor {
		return m.Forward(tensors["in.token_ids"], tensors["in.attention_mask"], tensors["in.token_type_ids"])
	}
	p.backward(c, m, tensors, func() (logits, loss torch.Tensor) {
		logits = run()
		return logits, m.Head().Loss(logits, tensors["in.labels"])
	})
	nn.SetTraining(m, false)
	torch.InferenceMode(func() { evaluateBERT(c, p, m, tensors, run()) })
	return nil
}

func evaluateBERT(c *check, p pass, m *bert.Classifier, tensors map[string]torch.Tensor, logits torch.Tensor) {
	c.tensor("logits_eval", logits, tensors["out.logits_eval"])
	const top = 2
	compareClasses(c, "predict", repository.Classes(logits, m.Head().ID2Label, top), p.Predict)
}

func compareClasses(c *check, what string, got [][]repository.Class, want [][]recordedText) {
	c.equal("the number of rows of "+what, len(got), len(want))
	for i := range min(len(got), len(want)) {
		c.equal(fmt.Sprintf("the number of classes of %s[%d]", what, i), len(got[i]), len(want[i]))
		for k := range min(len(got[i]), len(want[i])) {
			c.equal(fmt.Sprintf("%s[%d][%d]", what, i, k), got[i][k].Label, want[i][k].Label)
			c.hex(fmt.Sprintf("the score of %s[%d][%d]", what, i, k), got[i][k].Score, want[i][k].Score)
		}
	}
}

// backward runs a pass in the recorded mode and compares outputs, loss and gradients.
func (p pass) backward(c *check, m any, tensors map[string]torch.Tensor, run func() (logits, loss torch.Tensor)) {
	nn.SetTraining(m, p.Mode == "train")
	if p.DropoutSeed != nil {
		torch.ManualSeed(*p.DropoutSeed)
	}
	logits, loss := run()
	c.tensor("logits", logits.Detach(), tensors["out.logits"])
	c.hex("loss", loss.Item(), p.Loss)
	loss.Backward()
	var without []string
	gradients := map[string]torch.Tensor{}
	for _, named := range nn.Params(m) {
		if g := named.Tensor.Grad(); g.Defined() {
			gradients[named.Name] = g
		} else {
			without = append(without, named.Name)
		}
	}
	slices.Sort(without)
	if len(without)+len(p.Without) > 0 {
		c.equal("parameters_without_gradient", without, p.Without)
	}
	c.equal("the names of the gradients", slices.Sorted(maps.Keys(gradients)), slices.Sorted(maps.Keys(p.Gradients)))
	for _, name := range slices.Sorted(maps.Keys(p.Gradients)) {
		g, ok := gradients[name]
		if !ok {
			continue
		}
		if want, stored := tensors["grad."+name]; stored {
			c.tensor("the gradient of "+name, g, want)
		}
		c.equal("the shape of the gradient of "+name, append([]int64{}, g.Shape()...),
			append([]int64{}, p.Gradients[name].Shape...))
		values := torch.Values[float32](g)
		if sum(values) == p.Gradients[name].SHA256 {
			continue
		}
		double := g.ToDType(torch.Float64)
		c.hex("the sum of the gradient of "+name, double.Abs().Sum(torch.DefaultDType).Item(), p.Gradients[name].AbsSum)
		c.hex("the norm of the gradient of "+name, double.Mul(double).Sum(torch.DefaultDType).Sqrt().Item(),
			p.Gradients[name].L2)
	}
}
