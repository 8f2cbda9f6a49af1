package nn

import "github.com/gotrainer/gotrainer/torch"

// SyncBatchNorm is [BatchNorm] over the batches of all processes of a run: torch.nn.SyncBatchNorm.
// A program of this module is one process and its batch is the whole one, for which PyTorch
// computes what [BatchNorm1d] and its siblings compute, to the bit; so does this. It takes any
// number of dimensions and has their names in a file, so that models which were trained on many
// GPUs load as they are.
type SyncBatchNorm struct{ BatchNorm }

// NewSyncBatchNorm makes a SyncBatchNorm of that many channels.
func NewSyncBatchNorm(channels int64, o *BatchNormOptions) *SyncBatchNorm {
	return &SyncBatchNorm{newBatchNorm("NewSyncBatchNorm", channels, deref(o))}
}

// Forward normalises [N, channels, ...].
func (b *SyncBatchNorm) Forward(x torch.Tensor) torch.Tensor {
	if x.Dim() < 2 {
		panic(torch.Errorf("nn.SyncBatchNorm", torch.ErrInvalid, "want [N, channels, ...], found %v", x.Shape()))
	}
	return b.normalise(x)
}
