package auto_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// goldenCase is the output of testdata/auto.py for an encoder with a head. Tensors are represented
// by the first bytes of their SHA-256.
type goldenCase struct {
	Name, Head        string
	Pad               int
	Typed             bool
	Config            map[string]any
	Parameters, Saved []string
	Initial, Grads    map[string]string
	Fine, Final       map[string]string
	Norms             map[string]float64
	Generator, After  string
	FineGenerator     string `json:"fine_generator"`
	FinalGenerator    string `json:"final_generator"`
	Losses            []string
	GradNorms         []string `json:"grad_norms"`
}

func goldenCases(t *testing.T) ([]goldenCase, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/auto.json")
	require.NoError(t, err)
	var file struct{ Cases []goldenCase }
	require.NoError(t, json.Unmarshal(text, &file))
	return file.Cases, golden.Load(t, "testdata/auto.safetensors")
}

// anyModel is a model for any task.
type anyModel interface {
	classify.Model
	Architecture() string
	Save(dir string) error
}

// load loads a model for the task of a case.
func (c goldenCase) load(dir string, o auto.Options) (anyModel, *auto.Model, error) {
	ctx := context.Background()
	if o.Warnings == nil {
		o.Warnings = io.Discard
	}
	switch c.Head {
	case "SequenceClassification":
		m, err := auto.SequenceClassification(ctx, dir, o)
		return made(m, err, func() *auto.Model { return m.Model })
	case "TokenClassification":
		m, err := auto.TokenClassification(ctx, dir, o)
		return made(m, err, func() *auto.Model { return m.Model })
	case "QuestionAnswering":
		m, err := auto.QuestionAnswering(ctx, dir, o)
		return made(m, err, func() *auto.Model { return m.Model })
	}
	m, err := auto.MaskedLM(ctx, dir, o)
	return made(m, err, func() *auto.Model { return m.Model })
}

func made(m anyModel, err error, inner func() *auto.Model) (anyModel, *auto.Model, error) {
	if err != nil {
		return nil, nil, err
	}
	return m, inner(), nil
}

// fresh makes the model of a case with the seed 42.
func (c goldenCase) fresh(t *testing.T) anyModel {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(c.Config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	torch.ManualSeed(42)
	m, _, err := c.load(dir, auto.Options{FromConfig: true})
	require.NoError(t, err)
	return m
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

func sums(ts []torch.Named, of func(torch.Tensor) torch.Tensor) map[string]string {
	m := map[string]string{}
	for _, p := range ts {
		m[p.Name] = sum(of(p.Tensor).Bytes())
	}
	return m
}

func itself(t torch.Tensor) torch.Tensor { return t }

func names(ts []torch.Named) (list []string) {
	for _, p := range ts {
		list = append(list, p.Name)
	}
	return list
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	cases, _ := goldenCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			m := c.fresh(t)
			require.Equal(t, c.Name, m.Architecture())
			assert.Equal(t, c.Generator, modeltest.Generator(), "the generator has another state")
			require.Equal(t, c.Parameters, names(nn.Params(m)))
			sameSums(t, c.Initial, sums(nn.Params(m), itself))
		})
	}
}

// sameSums compares hashes of drawn weights on machines that compute the same numbers as the golden
// file. On others, only the generator and later values can be compared.
func sameSums[T any](t *testing.T, want, got T) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, got)
		return
	}
	t.Log("the bits of the weights are not compared: this machine makes other numbers")
}

// TestForwardAndBackwardHaveTransformersBits compares logits, the loss, the gradients of all
// parameters and the state of the generator in training with dropout, and logits in evaluation
// mode.
func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	cases, file := goldenCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "auto", c.Name)
			torch.Scope(func() { c.compare(t, c.fresh(t), file) })
		})
	}
}

func (c goldenCase) compare(t *testing.T, m anyModel, file *golden.File) {
	rows := modeltest.NamedRows(file, c.Pad, c.Typed)[:4]
	var logits, loss torch.Tensor
	var forward func() torch.Tensor
	torch.ManualSeed(7)
	switch c.Head {
	case "SequenceClassification":
		task := must(classify.NewTask(m, classify.TaskOptions{}))
		b := must(task.Collate(modeltest.RowsAs(rows, modeltest.EncoderRow.Sequence)))
		forward = func() torch.Tensor { return m.Forward(b.Tensors()) }
		logits = forward()
		loss = m.Head().Loss(logits, torch.From(b.Labels, 4))
	case "QuestionAnswering":
		task := must(question.NewTask(m, question.TaskOptions{}))
		b := must(task.Collate(modeltest.RowsAs(rows, modeltest.EncoderRow.Question)))
		o := task.Predict(engine.ForwardPass{}, b)
		logits = torch.Stack([]torch.Tensor{o.Logits[0], o.Logits[1]}, -1)
		loss = task.LossOf(engine.ForwardPass{}, o).Value
		forward = func() torch.Tensor { return m.Forward(b.Tensors()) }
	default:
		labels := modeltest.RowsAs(rows, func(r modeltest.EncoderRow) []int64 {
			if c.Head == "MaskedLM" {
				return r.Words
			}
			return r.Tokens
		})
		texts := modeltest.RowsAs(rows, func(r modeltest.EncoderRow) inputs.Text { return r.Text })
		b := must(m.Limits().Collate("test", texts, data.Padding{}))
		padded := b.Filled(inputs.IgnoreIndex)
		for i, l := range labels {
			copy(padded.Row(i), l)
		}
		forward = func() torch.Tensor { return m.Forward(b.Tensors()) }
		logits = forward()
		loss = inputs.TokenLoss(logits, inputs.Matrix(engine.ForwardPass{}, padded))
	}
	loss.Backward()
	near(t, "logits", logits.Detach(), file.Tensor(c.Name+".logits"))
	near(t, "loss", loss.Detach(), file.Tensor(c.Name+".loss"))
	for _, p := range nn.Params(m) {
		grad := p.Tensor.Grad()
		if !assert.True(t, grad.Defined(), "%s has no gradient", p.Name) {
			continue
		}
		assert.InDelta(t, c.Norms[p.Name], grad.ToDType(torch.Float64).Norm(2).Item(), 1e-6+1e-4*c.Norms[p.Name],
			p.Name)
	}
	if testenv.SameBits() {
		assert.Equal(t, c.After, modeltest.Generator(), "the generator has another state")
		assert.Equal(t, c.Grads, sums(nn.Params(m), torch.Tensor.Grad))
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() { near(t, "logits in evaluation mode", forward(), file.Tensor(c.Name+".eval")) })
}

func near(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	if testenv.SameBits() {
		golden.Bits(t, name, got, want)
	} else {
		golden.Close(t, name, got, want, 1e-4, 1e-6)
	}
}

// TestHeadOnSavedEncoderIsDrawnAsTransformersDraws compares what from_pretrained draws if only the
// encoder was saved, and checks the warning.
func TestHeadOnSavedEncoderIsDrawnAsTransformersDraws(t *testing.T) {
	cases, _ := goldenCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			whole := c.fresh(t)
			dir := t.TempDir()
			require.NoError(t, whole.WriteConfig(dir))
			c.saveEncoder(t, whole, dir)
			torch.ManualSeed(5)
			m, inner, err := c.load(dir, auto.Options{})
			require.NoError(t, err)
			assert.Equal(t, c.FineGenerator, modeltest.Generator(), "the generator has another state")
			sameSums(t, c.Fine, sums(nn.Params(m), itself))
			assert.NotEmpty(t, inner.Report.Initialized)
		})
	}
}

// saveEncoder saves only the encoder, with names without a prefix.
func (c goldenCase) saveEncoder(t *testing.T, m anyModel, dir string) {
	t.Helper()
	children := nn.Children(m)
	i := slices.IndexFunc(children, func(n nn.Named) bool {
		return slices.Contains([]string{"bert", "roberta", "distilbert", "electra", "mpnet"}, n.Name)
	})
	require.GreaterOrEqual(t, i, 0)
	require.NoError(t, nn.Save(filepath.Join(dir, "model.safetensors"), children[i].Module, nil))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestTwentyUpdatesHaveTransformersBits compares shuffled runs of Trainer over texts of different
// lengths with dropout, for masked language models with masks drawn for each batch.
func TestTwentyUpdatesHaveTransformersBits(t *testing.T) {
	cases, file := goldenCases(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "auto", c.Name+" training")
			m, rows := c.fresh(t), modeltest.NamedRows(file, c.Pad, c.Typed)
			require.Len(t, c.Losses, 20)
			switch c.Head {
			case "SequenceClassification":
				task := must(classify.NewTask(m, classify.TaskOptions{}))
				repeatRun(t, c, task, modeltest.RowsAs(rows, modeltest.EncoderRow.Sequence))
			case "TokenClassification":
				task := must(tokenclass.NewTask(m, tokenclass.TaskOptions{}))
				repeatRun(t, c, task, modeltest.RowsAs(rows, modeltest.EncoderRow.Token))
			case "QuestionAnswering":
				task := must(question.NewTask(m, question.TaskOptions{}))
				repeatRun(t, c, task, modeltest.RowsAs(rows, modeltest.EncoderRow.Question))
			default:
				mask := map[int]int64{0: 4, 1: 4}[c.Pad]
				task := must(maskedlm.NewTask(m, maskedlm.TaskOptions{Masking: maskedlm.Masking{Seed: 11},
					MaskTokenID: mask}))
				repeatRun(t, c, task, modeltest.RowsAs(rows, modeltest.EncoderRow.Masked))
			}
			if testenv.SameBits() {
				assert.Equal(t, c.Final, sums(nn.Params(m), itself))
				assert.Equal(t, c.FinalGenerator, modeltest.Generator(), "the generator has another state")
			}
		})
	}
}

func repeatRun[S, B any](t *testing.T, c goldenCase, task engine.Task[S, B], samples []S) {
	t.Helper()
	modeltest.Train(t, task, samples, 1, c.Losses, c.GradNorms)
}
