package transformer

// Encoder holds the layers of an encoder.
type Encoder[L EncoderLayer] struct {
	Stack[L]

	paddingFree bool
}

// EncoderLayer is a layer whose query, key and value are computed as three products, or as one.
type EncoderLayer interface {
	StackLayer
	FuseQKVProjections(on bool)
}

// NewEncoder makes n layers.
func NewEncoder[L EncoderLayer](n int64, layer func() L) *Encoder[L] {
	return &Encoder[L]{Stack: newStack(n, layer)}
}

// SetPaddingFree makes the tasks of packages classify, tokenclass, question and maskedlm drop the
// padding of their batches: padding_free of TRL. The tokens of all texts, [T, hidden], go through
// the layers, and each text attends to itself. Logits, loss and gradients are those of the padded
// batch except for rounding. With dropout only their distribution is the same, since tokens get
// other random numbers.
func (e *Encoder[L]) SetPaddingFree(on bool) { e.paddingFree = on }

// PaddingFree returns the setting of [Encoder.SetPaddingFree].
func (e *Encoder[L]) PaddingFree() bool { return e.paddingFree }

// FuseQKVProjections makes each layer compute query, key and value as one matrix product:
// fuse_qkv_projections of diffusers. The parameters remain three, with their names. The last bits
// of outputs and gradients may differ from those of three products.
func (e *Encoder[L]) FuseQKVProjections(on bool) {
	for _, layer := range e.Layer {
		layer.FuseQKVProjections(on)
	}
}
