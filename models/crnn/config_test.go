package crnn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

var charset = []string{"", "a", "b", "c"}

func TestConfigSurvivesItsFile(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := crnn.New(crnn.Config{
		Charset: charset, Channels: 3, ImageHeight: 48, ImageWidth: 200, ConvChannels: []int64{2, 2, 2, 2, 4, 4, 4},
		NormalizeAll: true, Map2SeqDim: 8, RNNDim: 8,
		Standardize: true, Dropout: 0.25, ReverseDigits: true, Mean: 0.4, Std: 0.3,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Config().WriteConfig(dir); err != nil {
		t.Fatal(err)
	}
	got, err := crnn.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Config(), got); diff != "" {
		t.Error(diff)
	}
}

func TestImpossibleConfigsAreRefused(t *testing.T) {
	for _, c := range []struct {
		config crnn.Config
		want   string
	}{
		{crnn.Config{}, "want the blank and at least one character"},
		{crnn.Config{Charset: charset, ImageHeight: 15}, "at least 16"},
		{crnn.Config{Charset: charset, ImageWidth: 3}, "at least 4"},
		{crnn.Config{Charset: charset, RNNDim: -1}, "RNNDim is -1"},
		{crnn.Config{Charset: charset, ConvChannels: []int64{1}}, "the model has 7 convolutions"},
		{crnn.Config{Charset: charset, Dropout: 1}, "Dropout is 1"},
		{crnn.Config{Charset: charset, Mean: 0.3}, "Mean is 0.3, but Std is 0"},
	} {
		if _, err := crnn.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.config, err, c.want)
		}
	}
}

func TestDamagedConfigFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":        {"{", "unexpected end"},
		"another model":   {`{"name": "bert"}`, `of kind "bert"`},
		"another blank":   {`{"name": "crnn_image2text", "id2label": {"0": ""}, "blank_id": 3}`, "blank_id is 3"},
		"a class too far": {`{"name": "crnn_image2text", "id2label": {"0": "", "7": "x"}}`, `the key "7"`},
		"another height": {`{"name": "crnn_image2text", "id2label": {"0": "", "1": "x"}, "map2seq_in_dim": 2048}`,
			"map2seq_in_dim is 2048"},
		"classes of nobody": {`{"name": "crnn_image2text", "id2label": {}}`, "0 classes"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := crnn.ReadConfig(dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: error %v, want one that names the file and has %q", name, err, c.want)
		}
	}
}

func TestPicturesMayHaveAnyWidth(t *testing.T) {
	testenv.RequireTorch(t)
	c := crnn.Config{Charset: charset, ImageWidth: 126, ConvChannels: []int64{2, 2, 2, 2, 2, 2, 2}, RNNDim: 4}
	torch.ManualSeed(1)
	m, err := crnn.New(c)
	require.NoError(t, err)
	y := m.Forward(torch.Randn(1, 1, 32, 126))
	require.Equal(t, m.Config().Frames(), y.Size(0))
	require.EqualValues(t, 31, y.Size(0), "126 halved twice and rounded down, as in PyTorch's pooling")
}

func TestClassesMayHaveOneText(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := crnn.New(crnn.Config{Charset: []string{"", "a", "b", "a"}, RNNDim: 4})
	require.NoError(t, err)
	require.Equal(t, "aba", m.Text([]int64{1, 2, 3}))
	b, err := crnn.NewTask(m).Collate([]crnn.Sample{{Pixels: make([]float32, 32*128), Text: "ab"}})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 2}, b.Targets, "the later class counts, as in Hezar")
	dir := t.TempDir()
	require.NoError(t, m.Config().WriteConfig(dir))
	got, err := crnn.ReadConfig(dir)
	require.NoError(t, err)
	require.Equal(t, m.Config(), got)
}

func TestInitFromScratchKeepsSignalsAlive(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m, err := crnn.New(crnn.Config{Charset: charset, ConvChannels: []int64{8, 8, 8, 8, 16, 16, 16}, RNNDim: 16})
	if err != nil {
		t.Fatal(err)
	}
	nn.SetTraining(m, false)
	x := torch.Randn(4, 1, 32, 128)
	spread := func() float64 { // how much the outputs for different images differ
		y := m.Forward(x)
		return y.Sub(y.MeanDim([]int64{1}, true, torch.DefaultDType)).Std(true).Item()
	}
	before := spread()
	m.InitFromScratch()
	if after := spread(); after < 5*before {
		t.Errorf("the outputs of an untrained model for different pictures lie apart by %g, by PyTorch's defaults "+
			"%g; want at least five times as much", after, before)
	}
	for _, p := range nn.Params(m) {
		if strings.HasPrefix(p.Name, "rnn1.bias_ih") {
			gates := torch.Values[float32](p.Tensor)
			if gates[0] != 0 || gates[16] != 1 || gates[31] != 1 || gates[32] != 0 {
				t.Errorf("%s: input gate %v, forget gates %v and %v, cell %v; want 0, 1, 1, 0", p.Name, gates[0],
					gates[16], gates[31], gates[32])
			}
		}
	}
}

func TestPicturesOfTheWrongSizeAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := crnn.New(crnn.Config{Charset: charset, ConvChannels: []int64{2, 2, 2, 2, 2, 2, 2}, RNNDim: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Read(make([]float32, 5)); err == nil || !strings.Contains(err.Error(), "picture 0 has 5 values") {
		t.Errorf("Read: error %v", err)
	}
	if _, err := m.Config().Pixels(vision.NewImage(3, 3, 1)); err == nil {
		t.Error("Pixels of a picture of another size gives no error")
	}
	task := crnn.NewTask(m)
	if _, err := task.Collate([]crnn.Sample{{Pixels: make([]float32, 32*128), Text: "az"}}); err == nil ||
		!strings.Contains(err.Error(), `no character 'z'`) {
		t.Errorf("Collate: error %v", err)
	}
}
