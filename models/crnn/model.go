package crnn

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is the network, its parameters under Hezar's names.
type Model struct {
	CNN        nn.Sequential `module:"cnn"`
	Map2Seq    *nn.Linear    `module:"map2seq"`
	RNN1       *nn.LSTM      `module:"rnn1"`
	RNN2       *nn.LSTM      `module:"rnn2"`
	Classifier *nn.Linear    `module:"classifier"`
	Dropout    *nn.Dropout   `module:"dropout"` // not in Hezar, without parameters

	config Config
	index  map[string]int64 // the class of each character
}

// New makes a model with random weights, drawn from the default generator as in Hezar.
func New(c Config) (*Model, error) {
	c, err := c.resolved()
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, index: c.index()}
	if err := torch.Try(m.build); err != nil {
		return nil, fmt.Errorf("crnn: %w", err)
	}
	return m, nil
}

func (m *Model) build() {
	c := m.config
	w := c.ConvChannels
	m.CNN = nn.Sequential{
		newConvBlock(c.Channels, w[0], c.NormalizeAll),
		nn.NewMaxPool2d(nn.Dims{2, 2}, nil),
		newConvBlock(w[0], w[1], c.NormalizeAll),
		nn.NewMaxPool2d(nn.Dims{2, 2}, nil),
		newConvBlock(w[1], w[2], c.NormalizeAll),
		newConvBlock(w[2], w[3], c.NormalizeAll),
		nn.NewMaxPool2d(nn.Dims{2, 1}, nil),
		newConvBlock(w[3], w[4], true),
		newConvBlock(w[4], w[5], true),
		nn.NewMaxPool2d(nn.Dims{2, 1}, nil),
		newConvBlock(w[5], w[6], c.NormalizeAll),
	}
	m.Dropout = nn.NewDropout(c.Dropout)
	m.Map2Seq = nn.NewLinear(c.map2SeqIn(), c.Map2SeqDim, nil)
	m.RNN1 = nn.NewLSTM(c.Map2SeqDim, c.RNNDim, &nn.RNNOptions{Bidirectional: true})
	m.RNN2 = nn.NewLSTM(2*c.RNNDim, c.RNNDim, &nn.RNNOptions{Bidirectional: true})
	m.Classifier = nn.NewLinear(2*c.RNNDim, int64(len(c.Charset)), nil)
}

const weightsName = "model.safetensors"

// Save writes config.json and model.safetensors into dir. It creates dir if needed.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("crnn: %w", err)
	}
	if err := m.config.WriteConfig(dir); err != nil {
		return err
	}
	return nn.Save(filepath.Join(dir, weightsName), m, nil)
}

// Load reads a model from config.json and model.safetensors in dir: what Save wrote, or a
// checkpoint. The model is in evaluation mode: [nn.SetTraining] switches it to training, which
// every trainer of this module does.
func Load(dir string) (*Model, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	if _, err := nn.Load(filepath.Join(dir, weightsName), m, nn.LoadOptions{}); err != nil {
		return nil, fmt.Errorf("crnn: %w", err)
	}
	nn.SetTraining(m, false)
	return m, nil
}

// LoadFS is [Load] from files in a file system, such as an embed.FS.
func LoadFS(files fs.FS) (*Model, error) {
	text, err := fs.ReadFile(files, configName)
	if err != nil {
		return nil, fmt.Errorf("crnn: %w", err)
	}
	weights, err := fs.ReadFile(files, weightsName)
	if err != nil {
		return nil, fmt.Errorf("crnn: %w", err)
	}
	c, err := parseConfig(text, configName)
	if err != nil {
		return nil, err
	}
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	r, err := safetensors.NewReader(bytes.NewReader(weights), int64(len(weights)))
	if err == nil {
		_, err = nn.LoadStateDict(m, nn.FileSource(r), nn.LoadOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("crnn: %s: %w", weightsName, err)
	}
	nn.SetTraining(m, false)
	return m, nil
}

// Config returns the model's configuration with all defaults filled in.
func (m *Model) Config() Config { return m.config }

// UseChannelsLast stores the weights of the convolutions in channels-last order, which makes
// training on CPUs up to a third faster. The order of summation changes, so the last bits differ
// from those of the usual layout.
func (m *Model) UseChannelsLast() {
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, layer := range m.CNN {
				if b, ok := layer.(*ConvBlock); ok {
					b.Conv.Weight.SetData_(b.Conv.Weight.InMemoryFormat(torch.ChannelsLast))
				}
			}
		})
	})
}

// Forward maps pictures, [N, channels, height, width], to log-probabilities, [frames, N, classes].
func (m *Model) Forward(x torch.Tensor) torch.Tensor {
	x = m.CNN.Forward(x)
	shape := x.Shape()
	batch, channels, height, width := shape[0], shape[1], shape[2], shape[3]
	x = x.Reshape(batch, channels*height, width).Permute(2, 0, 1)
	x = m.Dropout.Forward(m.Map2Seq.Forward(x))
	x = m.Dropout.Forward(m.RNN1.Forward(x))
	x = m.Dropout.Forward(m.RNN2.Forward(x))
	x = m.Classifier.Forward(x)
	// Under autocast, x has 8 significant bits, which are too few for probabilities.
	if x.DType() != torch.Float32 {
		x = x.ToDType(torch.Float32)
	}
	return x.LogSoftmax(2, torch.DefaultDType)
}

// ConvBlock is a 3x3 convolution, a batch normalisation and a ReLU. Every block has the batch
// normalisation, because published weights do, but it is applied only if Normalize is set.
type ConvBlock struct {
	Conv *nn.Conv2d      `module:"conv"`
	BN   *nn.BatchNorm2d `module:"bn"`

	normalize bool
}

func newConvBlock(in, out int64, normalize bool) *ConvBlock {
	return &ConvBlock{
		Conv:      nn.NewConv2d(in, out, nn.Dims{3}, &nn.ConvOptions{Padding: nn.Dims{1}}),
		BN:        nn.NewBatchNorm2d(out, nil),
		normalize: normalize,
	}
}

// Forward maps [N, in, H, W] to [N, out, H, W].
func (b *ConvBlock) Forward(x torch.Tensor) torch.Tensor {
	x = b.Conv.Forward(x)
	if b.normalize {
		x = b.BN.Forward(x)
	}
	return x.ReLU_()
}
