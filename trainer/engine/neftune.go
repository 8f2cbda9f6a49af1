package engine

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// InputEmbedder is a model whose input passes through an embedding: get_input_embeddings of
// transformers.
type InputEmbedder interface {
	InputEmbeddings() *nn.Embedding
}

// activateNEFTune adds noise to what the input embedding returns in training:
// neftune_post_forward_hook of transformers.
//
// Source: Jain and others, NEFTune: Noisy Embeddings Improve Instruction Finetuning,
// https://arxiv.org/abs/2310.05914.
func (s *core) activateNEFTune(model any) error {
	m, ok := model.(InputEmbedder)
	if !ok {
		return fmt.Errorf("engine: Options.NEFTuneAlpha is %g, but the model %T has no method InputEmbeddings() "+
			"*nn.Embedding (engine.InputEmbedder)", s.options.NEFTuneAlpha, model)
	}
	size := noiseSize(s.options.NEFTuneAlpha)
	m.InputEmbeddings().AfterForward = func(out torch.Tensor) torch.Tensor {
		if !s.stepping { // in evaluations, and whenever other code runs the model
			return out
		}
		limit := size(out.Size(1) * out.Size(2))
		return out.Add(out.ZerosLike().Uniform_(-limit, limit, nil))
	}
	return nil
}

// noiseSize computes alpha/sqrt(n) as Python does with a number and a tensor: in float32, alpha
// times the reciprocal of the root. It asks libtorch once for each n.
func noiseSize(alpha float64) func(n int64) float64 {
	known := map[int64]float64{}
	return func(n int64) float64 {
		limit, ok := known[n]
		if !ok {
			limit = torch.Full(n).Sqrt().Reciprocal().MulScalar(alpha).Item()
			known[n] = limit
		}
		return limit
	}
}
