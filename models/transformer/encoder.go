package transformer

// Encoder is the layers of an encoder.
type Encoder[L EncoderLayer] struct {
	Stack[L]

	paddingFree bool
}

// EncoderLayer is a layer whose query, key and value are three products, or one.
type EncoderLayer interface {
	StackLayer
	FuseQKVProjections(on bool)
}

// NewEncoder makes n layers.
func NewEncoder[L EncoderLayer](n int64, layer func() L) *Encoder[L] {
	return &Encoder[L]{Stack: newStack(n, layer)}
}

// SetPaddingFree makes the tasks of packages classify, tokenclass, question and maskedlm leave the
// padding of their batches out: the tokens of all texts, [T, hidden], go through the layers, and
// each text attends to itself. Logits, loss and gradients are those of the padded batch but for
// rounding; with dropout their distribution is, since other random numbers fall on the tokens. It is
// padding_free of TRL.
func (e *Encoder[L]) SetPaddingFree(on bool) { e.paddingFree = on }

// PaddingFree tells what [Encoder.SetPaddingFree] was told last.
func (e *Encoder[L]) PaddingFree() bool { return e.paddingFree }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product. The
// parameters stay three, with their names. Outputs have the bits of three products or differ in
// their last ones, as gradients do: fuse_qkv_projections of diffusers.
func (e *Encoder[L]) FuseQKVProjections(on bool) {
	for _, layer := range e.Layer {
		layer.FuseQKVProjections(on)
	}
}
