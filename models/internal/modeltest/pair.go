package modeltest

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// PairRows returns the 48 pairs of texts of a golden file.
func PairRows(file *golden.File) (list []seq2seq.Sample) {
	for i, s := range CausalRows(file) {
		labels := torch.Values[int64](file.Tensor("target." + strconv.Itoa(i)))
		list = append(list, seq2seq.Sample{Text: s.Text, Labels: labels})
	}
	return list
}

// ComparePair is [CausalCase.Compare] for a model that maps a text to a text, and the first four
// pairs of the golden file.
func (c CausalCase) ComparePair(t *testing.T, m *auto.Seq2SeqLanguageModel, file *golden.File) {
	t.Helper()
	rows := PairRows(file)[:4]
	if c.Full {
		for i, s := range rows {
			cut := func(ids []int64, n int) []int64 { return append(slices.Clone(ids), 1, 1, 1, 1)[:n] }
			rows[i] = seq2seq.Sample{Text: inputs.Text{InputIDs: cut(s.InputIDs, 5)}, Labels: cut(s.Labels, 3)}
		}
	}
	task := m.Task()
	b, err := task.Collate(rows)
	require.NoError(t, err)
	c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
		func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
}
