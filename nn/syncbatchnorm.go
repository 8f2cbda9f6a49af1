package nn

import "github.com/gotrainer/gotrainer/torch"

// SyncBatchNorm is [BatchNorm] over the batches of all processes that train a model together:
// torch.nn.SyncBatchNorm. Package dist/ddp, and through it the trainer and Accelerate, sets the
// process group. Without a group, and in evaluation, it computes the same bits as [BatchNorm1d]
// and its siblings, as in PyTorch. It takes any number of dimensions. Its names in a file are
// those of BatchNorm, so models trained on many GPUs can be loaded as they are.
type SyncBatchNorm struct{ BatchNorm }

// NewSyncBatchNorm makes a SyncBatchNorm with the given number of channels.
func NewSyncBatchNorm(channels int64, o *BatchNormOptions) *SyncBatchNorm {
	b := &SyncBatchNorm{newBatchNorm("NewSyncBatchNorm", channels, deref(o))}
	b.Sync = true
	return b
}

// Forward normalises [N, channels, ...].
func (b *SyncBatchNorm) Forward(x torch.Tensor) torch.Tensor {
	if x.Dim() < 2 {
		panic(torch.Errorf("nn.SyncBatchNorm", torch.ErrInvalid, "want [N, channels, ...], found %v", x.Shape()))
	}
	return b.normalise(x)
}

// batchNorm returns b. All batch normalisation layers inherit it by embedding BatchNorm.
func (b *BatchNorm) batchNorm() *BatchNorm { return b }

// batchNorms returns the batch normalisation layers of a model.
func batchNorms(model any) (layers []*BatchNorm) {
	for _, m := range Modules(model) {
		if b, ok := m.Module.(interface{ batchNorm() *BatchNorm }); ok {
			layers = append(layers, b.batchNorm())
		}
	}
	return layers
}

// ConvertSyncBatchNorm sets Sync for every batch normalisation layer of a model:
// torch.nn.SyncBatchNorm.convert_sync_batchnorm. Weights, names and types do not change.
func ConvertSyncBatchNorm(model any) {
	for _, b := range batchNorms(model) {
		b.Sync = true
	}
}

// SetProcessGroup sets the group with which the batch normalisation layers of a model share
// statistics, if their Sync is set; nil means that they do not share them. All processes must then
// make the same forward passes in training.
func SetProcessGroup(model any, group *torch.ProcessGroup) {
	for _, b := range batchNorms(model) {
		b.group = group
	}
}

// synchronised normalises x by the mean and the variance over the batches of all processes, whose
// numbers of rows may differ. As in PyTorch, each process sends its own mean and variance, because
// sums of squares would lose precision; gradients are sent back the same way. Statistics are
// computed at least in float32.
func (b *BatchNorm) synchronised(x torch.Tensor, momentum float64) torch.Tensor {
	dtype := x.DType()
	if dtype == torch.Float16 || dtype == torch.BFloat16 {
		x = x.ToDType(torch.Float32)
	}
	channels := x.Size(1)
	rows := x.Transpose(0, 1).Reshape(channels, -1)
	n := rows.Size(1)
	if n == 0 {
		panic(torch.Errorf("nn.SyncBatchNorm", torch.ErrInvalid, "want a batch with values on every process, found %v",
			x.Shape()))
	}
	mean := rows.MeanDim([]int64{1}, false, 0)
	squares := rows.Sub(mean.Unsqueeze(1)).Square().SumDim([]int64{1}, false, 0)
	count := torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Full(float64(n), 1)
	all := b.group.AllGather(torch.Cat([]torch.Tensor{mean, squares, count}, 0).Unsqueeze(0))
	means, counts := all.Narrow(1, 0, channels), all.Narrow(1, 2*channels, 1)
	total := counts.Sum(0)
	mean = means.Mul(counts).SumDim([]int64{0}, false, 0).Div(total)
	squares = all.Narrow(1, channels, channels).Add(means.Sub(mean).Square().Mul(counts)).SumDim([]int64{0}, false, 0)
	if b.RunningMean.Defined() {
		torch.NoGrad(func() {
			b.RunningMean.MulScalar_(1 - momentum).Add_(mean.MulScalar(momentum))
			b.RunningVar.MulScalar_(1 - momentum).Add_(squares.Div(total.SubScalar(1)).MulScalar(momentum))
		})
	}
	shape := make([]int64, x.Dim())
	for i := range shape {
		shape[i] = 1
	}
	shape[1] = channels
	y := x.Sub(mean.View(shape...)).Mul(squares.Div(total).AddScalar(b.Eps).Rsqrt().View(shape...))
	if b.Weight.Defined() {
		y = y.Mul(b.Weight.View(shape...)).Add(b.Bias.View(shape...))
	}
	return y.ToDType(dtype)
}
