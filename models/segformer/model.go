package segformer

import (
	"fmt"
	"strconv"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is SegformerModel: pixels in, the map of each stage out.
type Model struct {
	Encoder *Encoder `module:"encoder"`

	config Config
}

// Encoder is the mix transformer.
type Encoder struct {
	nn.Mode
	Stages []*Stage `module:"-"` // see OwnModules

	checkpointing bool
}

// Stage is SegformerStage: patches, layers that do not change the size of the map, and a
// normalization.
type Stage struct {
	PatchEmbeddings *PatchEmbeddings
	Blocks          []*Layer
	LayerNorm       *nn.LayerNorm
}

// PatchEmbeddings is SegformerOverlapPatchEmbeddings: a linear map of each patch, and its
// normalization.
type PatchEmbeddings struct {
	Proj      *nn.Conv2d    `module:"proj"`
	LayerNorm *nn.LayerNorm `module:"layer_norm"`
}

// layerNormEps is added to the variance by all normalizations: PyTorch's default.
const layerNormEps = 1e-5

// OwnModules are the modules of the stages. They have the names of files, where those of a kind are
// together, in the order of transformers 5, which has one stage after another.
func (e *Encoder) OwnModules() (modules []nn.Named) {
	for i, s := range e.Stages {
		n := strconv.Itoa(i)
		modules = append(modules, nn.Named{Name: "patch_embeddings." + n, Module: s.PatchEmbeddings},
			nn.Named{Name: "block." + n, Module: s.Blocks}, nn.Named{Name: "layer_norm." + n, Module: s.LayerNorm})
	}
	return modules
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, Encoder: &Encoder{}}
	layers := int64(0)
	for _, depth := range c.Depths {
		layers += depth
	}
	in, layer := c.NumChannels, int64(0)
	for i, size := range c.HiddenSizes {
		patch := c.PatchSizes[i]
		s := &Stage{PatchEmbeddings: &PatchEmbeddings{b.Conv2d(in, size, nn.Dims{patch},
			nn.ConvOptions{Stride: nn.Dims{c.Strides[i]}, Padding: nn.Dims{patch / 2}}), b.LayerNorm(size, layerNormEps)}}
		for range c.Depths[i] {
			s.Blocks = append(s.Blocks, newLayer(c, b, i, *c.DropPathRate*float64(layer)/float64(max(layers-1, 1))))
			layer++
		}
		s.LayerNorm = b.LayerNorm(size, layerNormEps)
		m.Encoder.Stages = append(m.Encoder.Stages, s)
		in = size
	}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// Forward maps the pixels of images, [B, channels, height, width], to [B, hidden], the means of the
// maps of the last stage. Pixels are converted to the dtype of the weights. Forward panics with
// [*torch.Error] if the images have another number of channels, or are too small.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		maps := m.FeatureMaps(pixels)
		positions := maps[len(maps)-1].Permute(0, 2, 3, 1).Flatten(1, 2)
		return positions.MeanDim([]int64{1}, false, torch.DefaultDType)
	})
}

// FeatureMaps maps pixels like [Model.Forward] to the map of each stage, [B, hidden, rows,
// columns].
func (m *Model) FeatureMaps(pixels torch.Tensor) []torch.Tensor {
	m.check(pixels.Shape())
	return torch.ReturnAll(func() (maps []torch.Tensor) {
		x := pixels.ToDType(m.Encoder.Stages[0].LayerNorm.Weight.DType())
		for _, s := range m.Encoder.Stages {
			x = m.Encoder.stage(s, x)
			maps = append(maps, x)
		}
		return maps
	})
}

// check panics for images that the model does not accept.
func (m *Model) check(shape []int64) {
	c, wrong := m.config, ""
	if len(shape) != 4 || shape[1] != c.NumChannels {
		wrong = fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	} else {
		height, width := shape[2], shape[3]
		for i, patch := range c.PatchSizes {
			rows := func(n int64) int64 { return (n+2*(patch/2)-patch)/c.Strides[i] + 1 }
			height, width = rows(height), rows(width)
			if ratio := c.SRRatios[i]; height < ratio || width < ratio {
				wrong = fmt.Sprintf("the pictures have %dx%d pixels, which stage %d makes %dx%d; want at least its SRRatios, %d",
					shape[2], shape[3], i, height, width, ratio)
				break
			}
		}
	}
	if wrong != "" {
		panic(torch.Errorf("segformer.Model.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// stage maps [B, in, H, W] to [B, out, rows, columns].
func (e *Encoder) stage(s *Stage, x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x := s.PatchEmbeddings.Proj.Forward(x)
		height := x.Size(2)
		x = s.PatchEmbeddings.LayerNorm.Forward(x.Flatten(2, -1).Transpose(1, 2))
		for _, l := range s.Blocks {
			if e.checkpointing && e.Training() {
				x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
					return []torch.Tensor{l.forward(in[0], height)}
				}, x)[0]
			} else {
				x = l.forward(x, height)
			}
		}
		return s.LayerNorm.Forward(x).Unflatten(1, height, -1).Permute(0, 3, 1, 2).Contiguous()
	})
}

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the rest
// in the backward pass: less memory, a third more time.
func (e *Encoder) SetGradientCheckpointing(on bool) { e.checkpointing = on }
