package classify

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
)

// Model computes the logits of texts.
type Model interface {
	// Forward maps token ids, [B, L], to logits, [B, labels]. The attention mask, [B, L], has 0 for
	// padding; undefined means that there is none. Token types, [B, L], tell a second text from the
	// first; undefined means 0.
	Forward(ids, mask, types torch.Tensor) torch.Tensor

	Head() Head
	Limits() Limits

	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Limits says which inputs a model takes.
type Limits = inputs.Limits
