package gpt2

import (
	"math"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is GPT2Model: ids in, hidden states out.
type Model struct {
	transformer.Decoder[*Block] `module:"-"` // runs H

	WTE  *nn.Embedding `module:"wte"` // token embedding
	WPE  *nn.Embedding `module:"wpe"` // position embedding
	Drop *nn.Dropout   `module:"drop"`
	H    []*Block      `module:"h"`
	LNF  *nn.LayerNorm `module:"ln_f"`

	config Config
}

// Block is GPT2Block: attention and a feed-forward part, each preceded by a layer normalisation
// and followed by the residual.
type Block struct {
	LN1  *nn.LayerNorm `module:"ln_1"`
	Attn *Attention    `module:"attn"`
	LN2  *nn.LayerNorm `module:"ln_2"`
	MLP  *MLP          `module:"mlp"`
}

// Attention is GPT2Attention, in which a token attends to itself and those before it.
type Attention struct {
	CAttn        *transformer.Conv1D `module:"c_attn"` // query, key and value
	CProj        *transformer.Conv1D `module:"c_proj"`
	AttnDropout  *nn.Dropout         `module:"attn_dropout"`
	ResidDropout *nn.Dropout         `module:"resid_dropout"`

	heads  int64
	kind   transformer.Attention
	layers int64
}

// MLP is GPT2MLP.
type MLP struct {
	CFC     *transformer.Conv1D `module:"c_fc"`
	CProj   *transformer.Conv1D `module:"c_proj"`
	Dropout *nn.Dropout         `module:"dropout"`

	activation transformer.Activation
	layers     int64
}

func newModel(c Config, b transformer.Builder, activation transformer.Activation) *Model {
	m := &Model{
		WTE:    b.Embedding(c.VocabSize, c.HiddenSize, nil),
		WPE:    b.Embedding(c.MaxPositions, c.HiddenSize, nil),
		Drop:   nn.NewDropout(*c.EmbeddingDropout),
		LNF:    b.LayerNorm(c.HiddenSize, c.LayerNormEps),
		config: c,
	}
	m.Decoder = transformer.NewDecoder(c.NumLayers, c.HiddenSize, func() *Block { return newBlock(c, b, activation) })
	m.H = m.Layer
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newBlock(c Config, b transformer.Builder, activation transformer.Activation) *Block {
	return &Block{
		LN1: b.LayerNorm(c.HiddenSize, c.LayerNormEps),
		Attn: &Attention{
			CAttn: b.Conv1D(c.HiddenSize, 3*c.HiddenSize), CProj: b.Conv1D(c.HiddenSize, c.HiddenSize),
			AttnDropout: nn.NewDropout(*c.AttentionDropout), ResidDropout: nn.NewDropout(*c.ResidualDropout),
			heads: c.NumHeads, kind: c.Attention, layers: c.NumLayers,
		},
		LN2: b.LayerNorm(c.HiddenSize, c.LayerNormEps),
		MLP: &MLP{
			CFC: b.Conv1D(c.HiddenSize, c.IntermediateSize), CProj: b.Conv1D(c.IntermediateSize, c.HiddenSize),
			Dropout: nn.NewDropout(*c.ResidualDropout), activation: activation, layers: c.NumLayers,
		},
	}
}

// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. The attention mask, [B, L], is
// 0 for padding; undefined means no padding. Positions count from the left, including padding.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	x := m.embed(ids, torch.TensorOptions{Device: ids.Device()}.Arange(0, ids.Size(1), 1).Unsqueeze(0))
	return m.LNF.Forward(m.Decoder.Forward(x, transformer.CausalMask(mask, x, m.config.Attention)))
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	x := m.embed(p.IDs.Unsqueeze(0), p.Positions.Unsqueeze(0))
	return m.LNF.Forward(m.Decoder.Forward(x, transformer.Mask{Packed: p, Causal: true})).SqueezeDim(0)
}

// embed maps token ids at the given positions, [1, L] or [B, L], to [B, L, hidden].
func (m *Model) embed(ids, positions torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.Drop.Forward(m.WTE.Forward(ids).Add(m.WPE.Forward(positions)))
	})
}

// Decode maps the next tokens of texts, [B, L], to their hidden states, [B, L, hidden], and adds
// them to the past. L is 1 unless the past is empty.
func (m *Model) Decode(ids torch.Tensor, past *transformer.Past) torch.Tensor {
	mask, positions := past.Next(ids.Size(1))
	if positions.Dim() == 1 {
		positions = positions.Unsqueeze(0)
	}
	x := m.embed(ids, positions)
	return m.LNF.Forward(m.Continue(x, transformer.CausalMask(mask, x, m.config.Attention), past))
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (b *Block) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor { // frees what autograd does not need now, instead of at the end of the step
		return b.Continue(x, mask, transformer.NoPast)
	})
}

// Continue is Forward for tokens that attend to what recall returns.
func (b *Block) Continue(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	x = b.Attn.forward(b.LN1.Forward(x), mask, recall).Add(x)
	return x.Add(b.MLP.Forward(b.LN2.Forward(x)))
}

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	all := a.CAttn.Forward(x).Split(x.Size(-1), 2)
	keys, values := recall(all[1], all[2])
	x = a.kind.Attend(all[0], keys, values, mask, a.heads, transformer.ActiveDropout(a.AttnDropout))
	return a.ResidDropout.Forward(a.CProj.Forward(x))
}

// DrawWeights draws the output layer, scaled for the number of layers whose outputs are added up.
func (a *Attention) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	drawResidual(a.CProj, std, a.layers, wanted)
}

// Forward maps [..., hidden] to [..., hidden].
func (p *MLP) Forward(x torch.Tensor) torch.Tensor {
	return p.Dropout.Forward(p.CProj.Forward(p.activation(p.CFC.Forward(x))))
}

// DrawWeights draws the output layer, scaled for the number of layers whose outputs are added up.
func (p *MLP) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	drawResidual(p.CProj, std, p.layers, wanted)
}

// drawResidual draws a weight with the standard deviation divided by the square root of the number
// of residual connections, two per layer.
//
// Source: Radford and others, Language Models are Unsupervised Multitask Learners, section 2.3.
func drawResidual(l *transformer.Conv1D, std float64, layers int64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("c_proj.weight", l.Weight) {
		initialize.Normal(l.Weight, 0, std/math.Sqrt(float64(2*layers)), nil)
	}
}
