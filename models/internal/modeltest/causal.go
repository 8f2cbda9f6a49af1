package modeltest

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// CausalCase is one forward and backward pass of a language model in training mode, and one forward
// pass in evaluation mode.
type CausalCase struct {
	Name                      string
	Attention                 transformer.Attention
	Full, BF16, Checkpointing bool // Full: no text is padded
	Half                      bool // the weights are in bfloat16
	Dropout                   float64
	Generator                 string
	Grads                     map[string]string
	Norms                     map[string]float64

	// HalfTolerance is the relative tolerance of gradients in 16 bits on other machines; zero: 2e-2.
	HalfTolerance float64 `json:"-"`
}

// CausalRows returns the 48 texts of a golden file.
func CausalRows(file *golden.File) (rows []causallm.Sample) {
	for i := range 48 {
		rows = append(rows, causallm.Sample{Text: inputs.Text{
			InputIDs: torch.Values[int64](file.Tensor("row." + strconv.Itoa(i)))}})
	}
	return rows
}

// Compare compares a model that was made with the seed 42 with a case. The texts are the first four
// of rows.
func (c CausalCase) Compare(t *testing.T, m *auto.CausalLanguageModel, rows []causallm.Sample, file *golden.File) {
	t.Helper()
	m.SetGradientCheckpointing(c.Checkpointing)
	rows = slices.Clone(rows[:4])
	if c.Full {
		for i, s := range rows {
			ids := append(slices.Clone(s.InputIDs), 1, 1, 1, 1)[:5]
			rows[i] = causallm.Sample{Text: inputs.Text{InputIDs: ids}}
		}
	}
	task := m.Task()
	b, err := task.Collate(rows)
	require.NoError(t, err)
	c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
		func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
}

// Pass compares a forward and backward pass of a model, and a forward pass in evaluation mode, with
// a case.
func (c CausalCase) Pass(t *testing.T, m any, file *golden.File, predict func() engine.Outputs,
	lossOf func(o engine.Outputs) torch.Tensor) {
	t.Helper()
	precision, computed := amp.FP32, torch.Float32
	if c.BF16 {
		precision, computed = amp.BF16, torch.BFloat16
	} else if c.Half {
		computed = torch.BFloat16
	}
	var o engine.Outputs
	var loss torch.Tensor
	torch.ManualSeed(7)
	amp.Autocast(torch.CPU, precision, func() {
		o = predict()
		loss = lossOf(o)
	})
	loss.Backward()
	golden.RecordedIn(t, "logits", o.Logits[0].Detach(), file.Tensor(c.Name+".logits"), computed)
	golden.RecordedIn(t, "loss", loss.Detach(), file.Tensor(c.Name+".loss"), computed)
	SameGrads(t, m, c.Grads, c.Norms, map[bool]float64{false: 1e-4, true: cmp.Or(c.HalfTolerance, 2e-2)}[c.BF16 || c.Half])
	if testenv.SameBits() {
		assert.Equal(t, c.Generator, Generator(), "the generator has another state")
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		amp.Autocast(torch.CPU, precision, func() {
			o = predict()
			golden.RecordedIn(t, "logits in evaluation mode", o.Logits[0], file.Tensor(c.Name+".eval"), computed)
		})
	})
}
