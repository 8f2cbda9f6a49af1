package detr

import (
	"math"

	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is DetrModel: pixels in, hidden states of queries out.
type Model struct {
	Backbone struct {
		ConvEncoder struct {
			Model *resnet.Backbone `module:"model"`
		} `module:"conv_encoder"`
	} `module:"backbone"`
	PositionEmbedding       *Positions    `module:"position_embedding"` // nil: sine
	QueryPositionEmbeddings *nn.Embedding `module:"query_position_embeddings"`
	InputProjection         *nn.Conv2d    `module:"input_projection"`
	Encoder                 *encoder      `module:"encoder"`
	Decoder                 *decoder      `module:"decoder"`

	config Config
}

// Positions is DetrLearnedPositionEmbedding.
type Positions struct {
	RowEmbeddings    *nn.Embedding `module:"row_embeddings"`    // [50, hidden/2]
	ColumnEmbeddings *nn.Embedding `module:"column_embeddings"` // likewise
}

// learned is how many rows and columns of features have learned positions.
const learned = 50

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c}
	draw := func(module any) {
		if !b.Undrawn {
			transformer.InitWeights(module, c.InitStd, nil)
		}
	}
	m.Backbone.ConvEncoder.Model = resnet.NewBackbone(c.Backbone, b)
	if c.PositionEmbedding == Learned {
		m.PositionEmbedding = &Positions{b.Embedding(learned, c.HiddenSize/2, nil), b.Embedding(learned, c.HiddenSize/2, nil)}
	}
	m.QueryPositionEmbeddings = b.Embedding(c.NumQueries, c.HiddenSize, nil)
	features := c.Backbone.HiddenSizes[len(c.Backbone.HiddenSizes)-1]
	m.InputProjection = b.Conv2d(features, c.HiddenSize, nn.Dims{1}, nn.ConvOptions{})
	// Encoder and decoder are PreTrainedModels of their own, so transformers draws them first.
	m.Encoder = newEncoder(c, b)
	draw(m.Encoder)
	m.Decoder = newDecoder(c, b)
	draw(m.Decoder)
	if m.PositionEmbedding != nil {
		draw(m.PositionEmbedding)
	}
	draw(m.QueryPositionEmbeddings)
	draw(m.InputProjection)
	m.FreezeBackbone(false)
	return m
}

// DrawWeights draws the embeddings again: transformer.WeightDrawer.
func (p *Positions) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	for _, e := range []torch.Named{{Name: "row_embeddings.weight", Tensor: p.RowEmbeddings.Weight},
		{Name: "column_embeddings.weight", Tensor: p.ColumnEmbeddings.Weight}} {
		if wanted(e.Name, e.Tensor) {
			initialize.Uniform(e.Tensor, 0, 1, nil)
		}
	}
}

// FreezeBackbone excludes the whole ResNet from training, or only its first convolution and first
// stage.
func (m *Model) FreezeBackbone(whole bool) {
	for i, stage := range m.Backbone.ConvEncoder.Model.Stages() {
		for _, p := range nn.Params(stage) {
			p.Tensor.SetRequiresGrad(!whole && i > 1)
		}
	}
}

func (m *Model) setGradientCheckpointing(on bool) {
	m.Encoder.checkpointing, m.Decoder.checkpointing = on, on
}

// forward maps pixels, [B, channels, height, width], and their mask to hidden states, [B, queries,
// hidden]: transformer.Backbone.ForwardQueries.
func (m *Model) forward(pixels, mask torch.Tensor) (last, earlier torch.Tensor) {
	out := torch.ReturnAll(func() []torch.Tensor {
		c := m.config
		map_ := m.Backbone.ConvEncoder.Model.Forward(pixels)
		shape := map_.Shape()
		x := m.InputProjection.Forward(map_).Flatten(2, -1).Transpose(1, 2)
		if mask.Defined() {
			size := []int64{shape[2], shape[3]}
			mask = torch.Call("aten::upsample_nearest2d.vec", mask.Unsqueeze(0), size, nil)[0].SqueezeDim(0)
		}
		positions := m.positions(shape, mask, m.InputProjection.Weight.DType()).Flatten(2, -1).Transpose(1, 2)
		keep := torch.Tensor{}
		if mask.Defined() {
			keep = transformer.KeyMask(mask.Flatten(1, -1))
		}
		encoded := m.Encoder.forward(x, positions, keep, c)
		queries := m.QueryPositionEmbeddings.Weight.Unsqueeze(0).Repeat(shape[0], 1, 1)
		last, earlier := m.Decoder.forward(queries, encoded, positions, keep, c)
		if !earlier.Defined() {
			return []torch.Tensor{last}
		}
		return []torch.Tensor{last, earlier}
	})
	if len(out) == 1 {
		return out[0], torch.Tensor{}
	}
	return out[0], out[1]
}

// positions returns the position embeddings of a map of features, [B, hidden, rows, columns]. mask,
// [B, rows, columns], may be undefined.
func (m *Model) positions(shape []int64, mask torch.Tensor, dtype torch.DType) torch.Tensor {
	rows, columns := shape[2], shape[3]
	if p := m.PositionEmbedding; p != nil {
		if rows > learned || columns > learned {
			panic(torch.Errorf("detr.Model.Forward", torch.ErrInvalid,
				"there are %dx%d features of an image; want at most %dx%d, which have learned positions", rows, columns, learned,
				learned))
		}
		numbers := func(n int64) torch.Tensor {
			return torch.TensorOptions{Device: p.RowEmbeddings.Weight.Device()}.Arange(0, n, 1)
		}
		x := p.ColumnEmbeddings.Forward(numbers(columns)).Unsqueeze(0).Repeat(rows, 1, 1)
		y := p.RowEmbeddings.Forward(numbers(rows)).Unsqueeze(1).Repeat(1, columns, 1)
		return torch.Cat([]torch.Tensor{x, y}, -1).Permute(2, 0, 1).Unsqueeze(0).Repeat(shape[0], 1, 1, 1)
	}
	o := torch.TensorOptions{DType: dtype, Device: m.InputProjection.Weight.Device()}
	if !mask.Defined() {
		mask = o.Ones(shape[0], rows, columns)
	}
	mask = mask.ToDType(dtype)
	return sine(mask, m.config.HiddenSize/2, o)
}

// sine is DetrSinePositionEmbedding of a map of features, of which mask, [B, rows, columns], has 1
// where there is image. The result is [B, 2·size, rows, columns].
func sine(mask torch.Tensor, size int64, o torch.TensorOptions) torch.Tensor {
	const eps, temperature = 1e-6, 10000
	share := func(dim int64) torch.Tensor {
		x := mask.CumSum(dim, torch.DefaultDType)
		return x.Div(x.Narrow(dim, x.Size(dim)-1, 1).AddScalar(eps)).MulScalar(2 * math.Pi)
	}
	periods := torch.TensorOptions{Device: o.Device}.Arange(0, size, 1).ToDType(o.DType)
	periods = torch.Call("aten::div.Scalar_mode", periods, 2, "floor")[0].MulScalar(2).DivScalar(size)
	periods = torch.Call("aten::pow.Scalar", temperature, periods)[0]
	waves := func(dim int64) torch.Tensor {
		x := share(dim).Unsqueeze(-1).Div(periods)
		pairs := x.Unflatten(-1, size/2, 2)
		return torch.Stack([]torch.Tensor{pairs.Select(-1, 0).Sin(), pairs.Select(-1, 1).Cos()}, 4).Flatten(3, -1)
	}
	return torch.Cat([]torch.Tensor{waves(1), waves(2)}, 3).Permute(0, 3, 1, 2)
}
