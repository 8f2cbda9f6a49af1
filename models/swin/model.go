package swin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is SwinModel: pixels in, the positions of the last map out.
type Model struct {
	Embeddings *Embeddings   `module:"embeddings"`
	Encoder    *Encoder      `module:"encoder"`
	LayerNorm  *nn.LayerNorm `module:"layernorm"`

	config Config
}

// Encoder is SwinEncoder: the stages.
type Encoder struct {
	nn.Mode
	Stages []*Stage `module:"layers"` // the name in files

	checkpointing bool
}

// Stage is SwinStage: layers that change neither the number of channels nor the size of a map, and
// what makes the map of the next stage.
type Stage struct {
	Blocks     []*Layer      `module:"blocks"`
	Downsample *PatchMerging `module:"downsample"` // nil in the last stage
}

// PatchMerging is SwinPatchMerging: it makes one position of four neighbours, with twice the
// channels.
type PatchMerging struct {
	Reduction *nn.Linear    `module:"reduction"`
	Norm      *nn.LayerNorm `module:"norm"`
}

// mapSize is the size of a map, whose positions are in the second dimension of a tensor, row by
// row.
type mapSize struct{ rows, columns int64 }

// halved is the size of the map of the next stage.
func (s mapSize) halved() mapSize { return mapSize{(s.rows + 1) / 2, (s.columns + 1) / 2} }

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, Embeddings: newEmbeddings(c, b), Encoder: newEncoder(c, b)}
	m.LayerNorm = b.LayerNorm(c.hidden, c.LayerNormEps)
	if !b.Undrawn {
		// SwinEncoder is a PreTrainedModel of its own, so transformers draws it first.
		transformer.InitWeights(m.Encoder, c.InitializerRange, nil)
		transformer.InitWeights(m.Embeddings, c.InitializerRange, nil)
	}
	return m
}

func newEncoder(c Config, b transformer.Builder) *Encoder {
	e := &Encoder{}
	layers, layer := int64(0), int64(0)
	for _, depth := range c.Depths {
		layers += depth
	}
	for i, depth := range c.Depths {
		s := &Stage{}
		for j := range depth {
			dropPath := *c.DropPathRate * float64(layer) / float64(max(layers-1, 1))
			s.Blocks = append(s.Blocks, newLayer(c, b, i, dropPath, j%2 == 1))
			layer++
		}
		if size := c.channels(i); i < len(c.Depths)-1 {
			s.Downsample = &PatchMerging{Reduction: b.LinearNoBias(4*size, 2*size), Norm: b.LayerNorm(4*size, layerNormEps)}
		}
		e.Stages = append(e.Stages, s)
	}
	return e
}

// Forward maps the pixels of images, [B, channels, height, width], to the positions of the last
// map, [B, rows·columns, hidden]. Pixels are converted to the dtype of the weights. Forward
// panics with [*torch.Error] if the images have another number of channels, are too small, or
// have a size that there are no positions for.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	m.check(pixels.Shape())
	return torch.Return(func() torch.Tensor {
		x, size := m.Embeddings.forward(pixels.ToDType(m.LayerNorm.Weight.DType()))
		return m.LayerNorm.Forward(m.Encoder.forward(x, size))
	})
}

// check panics for images that the model does not accept. In transformers, too, the bias of
// attention fits only windows that a map fills, but what it says then does not name the image.
func (m *Model) check(shape []int64) {
	c, wrong := m.config, m.Embeddings.check(shape)
	if wrong == "" {
		size := mapSize{divideUp(shape[2], c.PatchSize.Height), divideUp(shape[3], c.PatchSize.Width)}
		for stage := range c.Depths {
			if size.rows < c.WindowSize || size.columns < c.WindowSize {
				wrong = fmt.Sprintf("the pictures have %dx%d pixels, a map of %dx%d in stage %d; want at least a window, %dx%d",
					shape[2], shape[3], size.rows, size.columns, stage, c.WindowSize, c.WindowSize)
				break
			}
			size = size.halved()
		}
	}
	if wrong != "" {
		panic(torch.Errorf("swin.Model.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

func divideUp(n, by int64) int64 { return (n + by - 1) / by }

// InterpolatePosEncoding makes Forward take images whose size is any multiple of a patch. The
// embeddings of positions are interpolated between those that the model knows:
// interpolate_pos_encoding of transformers. It is an error for models whose patches are not
// square or do not form a square.
func (m *Model) InterpolatePosEncoding(on bool) error {
	if err := m.config.canInterpolate(); on && err != nil {
		return err
	}
	m.Embeddings.interpolate = on
	return nil
}

// forward runs the stages on a map of the given size, [B, rows·columns, channels].
func (e *Encoder) forward(x torch.Tensor, size mapSize) torch.Tensor {
	for _, s := range e.Stages {
		x = e.layers(s.Blocks, x, size)
		if s.Downsample != nil {
			x, size = s.Downsample.forward(x, size), size.halved()
		}
	}
	return x
}

// layers runs the layers of a stage.
func (e *Encoder) layers(layers []*Layer, x torch.Tensor, size mapSize) torch.Tensor {
	for _, l := range layers {
		if e.checkpointing && e.Training() {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				return []torch.Tensor{l.forward(in[0], size)}
			}, x)[0]
		} else {
			x = l.forward(x, size)
		}
	}
	return x
}

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the rest
// in the backward pass: less memory, a third more time.
func (e *Encoder) SetGradientCheckpointing(on bool) { e.checkpointing = on }

// FuseQKVProjections is transformer.Encoder's method.
func (e *Encoder) FuseQKVProjections(on bool) {
	for _, s := range e.Stages {
		for _, l := range s.Blocks {
			l.Attention.projections.Fused = on
		}
	}
}

// forward maps the positions of a map, [B, rows·columns, C], to those of half as many rows and
// columns, with 2·C channels. A row or column without a neighbour gets one of zeros.
func (p *PatchMerging) forward(x torch.Tensor, size mapSize) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x := x.View(-1, size.rows, size.columns, x.Size(2))
		if size.rows%2 == 1 || size.columns%2 == 1 {
			x = x.Pad(0, 0, 0, 0, size.columns%2, 0, size.rows%2)
		}
		half := size.halved()
		var parts []torch.Tensor
		for column := range int64(2) {
			for row := range int64(2) {
				parts = append(parts, x.Slice(1, row, 2*half.rows, 2).Slice(2, column, 2*half.columns, 2))
			}
		}
		return p.Reduction.Forward(p.Norm.Forward(torch.Cat(parts, -1).Flatten(1, 2)))
	})
}

// pool returns the means of maps, [B, C], out of their positions, [B, L, C], with the operator of
// nn.AdaptiveAvgPool1d.
func pool(x torch.Tensor) torch.Tensor {
	return torch.Call("aten::adaptive_avg_pool1d", x.Transpose(1, 2), []int64{1})[0].Flatten(1, -1)
}
