package crnn_test

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestGreedyMergesRepeatsAndLeavesBlanksOut(t *testing.T) {
	for _, c := range []struct{ frames, want []int64 }{
		{nil, nil}, {[]int64{0, 0}, nil}, {[]int64{5}, []int64{5}}, {[]int64{1, 1, 0, 1, 2, 2}, []int64{1, 1, 2}},
		{[]int64{0, 4, 4, 0, 0, 4}, []int64{4, 4}},
	} {
		if got := crnn.Greedy(c.frames); !slices.Equal(got, c.want) {
			t.Errorf("Greedy(%v) = %v, want %v", c.frames, got, c.want)
		}
	}
}

func reader(t *testing.T) *crnn.Model {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m, err := crnn.New(crnn.Config{Charset: []string{"", "1", "2", "b"}, ConvChannels: []int64{2, 2, 2, 2, 2, 2, 2},
		RNNDim: 4, ReverseDigits: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTextTurnsDigitsRoundAndSkipsPadding(t *testing.T) {
	if got := reader(t).Text([]int64{1, 2, 3, 1, 0, 0, 9, -1}); got != "1b21" {
		t.Errorf("Text = %q, want 1b21", got)
	}
}

func TestLossOfPaddedLabelsIsThatOfTheLabels(t *testing.T) {
	m := reader(t)
	torch.Scope(func() {
		logProbs := torch.Randn(6, 3, 4).LogSoftmax(2, torch.DefaultDType)
		padded := torch.From([]int64{1, 2, 3, 0, 0, 3, 2, 2, 1, 1, 1, 1}, 3, 4)
		want := logProbs.CTCLoss(torch.From([]int64{1, 2, 3, 3, 2, 2, 1, 1, 1, 1}), torch.From([]int64{6, 6, 6}),
			torch.From([]int64{3, 3, 4}), 0, torch.ReductionMean, true)
		if got := m.Loss(logProbs, padded); got.Item() != want.Item() {
			t.Errorf("Loss = %v, want %v", got.Item(), want.Item())
		}
	})
}

func TestReadingsAreTheBestClasses(t *testing.T) {
	m := reader(t)
	torch.Scope(func() {
		// frames, rows, classes
		logits := torch.From([]float32{0, 9, 0, 0, 9, 0, 0, 0, 0, 0, 9, 0, 9, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9}, 3, 2, 4)
		got := m.Readings(logits.LogSoftmax(2, torch.DefaultDType))
		if len(got) != 2 || got[0].Text != "21" || got[1].Text != "b" || got[0].Score < 0.999 || got[0].Score > 1 {
			t.Errorf("read %+v, want 21 and b", got)
		}
	})
}

func TestAModelThatIsTrainedIsReadInEvaluationAndTrainedOn(t *testing.T) {
	m := reader(t)
	var modes []interface{ Training() bool }
	for _, n := range nn.Modules(m) {
		if mode, ok := n.Module.(interface{ Training() bool }); ok {
			modes = append(modes, mode)
		}
	}
	require.NotEmpty(t, modes)
	c := m.Config()
	picture := make([]float32, c.Channels*c.ImageHeight*c.ImageWidth)
	first, err := m.Read(picture)
	require.NoError(t, err)
	for _, mode := range modes {
		assert.True(t, mode.Training())
	}
	nn.SetTraining(m, false)
	again, err := m.Read(picture)
	require.NoError(t, err)
	assert.Equal(t, first, again)
}

func TestSeveralGoroutinesReadWhatOneDoesAndLeaveTheModelAsItWas(t *testing.T) {
	m := reader(t)
	c := m.Config()
	picture := make([]float32, c.Channels*c.ImageHeight*c.ImageWidth)
	for i := range picture {
		picture[i] = float32(i%7) - 3
	}
	var before []torch.Tensor
	for _, b := range nn.Buffers(m) {
		before = append(before, b.Tensor.Clone())
	}
	want, err := m.Read(picture)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				got, err := m.Read(picture)
				if !assert.NoError(t, err) || !assert.Equal(t, want, got) {
					return
				}
			}
		})
	}
	all.Wait()
	for i, b := range nn.Buffers(m) {
		assert.True(t, b.Tensor.Equal(before[i]), b.Name)
	}
	assert.True(t, m.Dropout.Training())
}

func TestALoadedModelIsInEvaluationMode(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, reader(t).Save(dir))
	m, err := crnn.Load(dir)
	require.NoError(t, err)
	carried, err := crnn.LoadFS(os.DirFS(dir))
	require.NoError(t, err)
	for _, m := range []*crnn.Model{m, carried} {
		for _, n := range nn.Modules(m) {
			if mode, ok := n.Module.(interface{ Training() bool }); ok {
				assert.False(t, mode.Training(), n.Name)
			}
		}
	}
}
