package functional

import (
	"cmp"

	"github.com/gotrainer/gotrainer/torch"
)

// BatchNormOptions are the arguments of torch.nn.functional.batch_norm. The zero value means
// PyTorch's defaults.
type BatchNormOptions struct {
	RunningMean, RunningVar torch.Tensor // [C]; undefined: none
	Weight, Bias            torch.Tensor // [C]; undefined: none
	Training                bool         // normalise by the batch's own statistics and update the running ones
	Momentum                *float64     // weight of this batch in the running statistics; nil means 0.1
	Eps                     float64      // added to the variance; zero means 1e-5
}

// BatchNorm normalises each channel of [N, C, ...] by its mean and variance over the batch, or by
// the running ones: torch.nn.functional.batch_norm. In training it panics if a channel has a
// single value, since that is its own mean and would become 0.
func BatchNorm(input torch.Tensor, o BatchNormOptions) torch.Tensor {
	const op = "BatchNorm"
	if o.Training {
		checkValuesPerChannel(op, input.Shape(), input.Shape())
	}
	if o.Eps < 0 {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Eps must be positive, found %g", o.Eps))
	}
	momentum := 0.1
	if o.Momentum != nil {
		momentum = *o.Momentum
	}
	return input.BatchNorm(o.Weight, o.Bias, o.RunningMean, o.RunningVar, o.Training, momentum, cmp.Or(o.Eps, 1e-5))
}

// checkValuesPerChannel panics if there is only one value per channel to compute statistics of.
// shape, [N, C, ...], is the shape that is normalised; found is the input's shape for the error.
func checkValuesPerChannel(op string, shape, found []int64) {
	if len(shape) == 0 {
		return // the operator reports the error
	}
	values := shape[0]
	for _, n := range shape[min(2, len(shape)):] {
		values *= n
	}
	if values == 1 {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "expected more than 1 value per channel when training, "+
			"got input size %v",
			found))
	}
}

// GroupNorm normalises each of the given number of groups of the channels of [N, C, ...]:
// torch.nn.functional.group_norm, whose default eps is 1e-5. weight and bias may be undefined. It
// panics if the groups of all examples hold a single value.
func GroupNorm(input torch.Tensor, groups int64, weight, bias torch.Tensor, eps float64) torch.Tensor {
	if shape := input.Shape(); len(shape) >= 2 && groups > 0 {
		checkValuesPerChannel("GroupNorm", append([]int64{shape[0] * shape[1] / groups, groups}, shape[2:]...), shape)
	}
	return call("aten::group_norm", input, groups, weight, bias, eps, true)
}

// InstanceNormOptions are the keywords of torch.nn.functional.instance_norm. The zero value means
// PyTorch's defaults.
type InstanceNormOptions struct {
	RunningMean, RunningVar torch.Tensor // [C]; undefined: none
	Weight, Bias            torch.Tensor // [C]; undefined: none
	UseRunningStats         bool         // normalise by the running statistics: use_input_stats=False
	Momentum                float64      // weight of this batch in the running statistics; zero means 0.1
	Eps                     float64      // added to the variance; zero means 1e-5
}

// InstanceNorm normalises each channel of each example of [N, C, ...] by its own mean and variance:
// torch.nn.functional.instance_norm. It panics if a channel has a single value, unless it is
// normalised by the running statistics.
func InstanceNorm(input torch.Tensor, o InstanceNormOptions) torch.Tensor {
	if shape := input.Shape(); !o.UseRunningStats {
		values := int64(1)
		for _, n := range shape[min(2, len(shape)):] {
			values *= n
		}
		if values == 1 {
			panic(torch.Errorf("functional.InstanceNorm", torch.ErrValue, "expected more than 1 spatial element when "+
				"training, got "+
				"input size %v", shape))
		}
	}
	return call("aten::instance_norm", input, o.Weight, o.Bias, o.RunningMean, o.RunningVar, !o.UseRunningStats,
		cmp.Or(o.Momentum, 0.1), cmp.Or(o.Eps, 1e-5), true)
}

// RMSNorm divides by the root of the mean square over the last dimensions, of sizes shape:
// torch.nn.functional.rms_norm. weight may be undefined. Eps 0 is PyTorch's None: the smallest
// step of the dtype above 1.
func RMSNorm(input torch.Tensor, shape []int64, weight torch.Tensor, eps float64) torch.Tensor {
	var optional any
	if eps != 0 {
		optional = eps
	}
	return call("aten::rms_norm", input, shape, weight, optional)
}

// LocalResponseNorm divides each channel of [N, C, ...] by (k + alpha*mean)^beta, where mean is
// that of the squares of size neighbouring channels: torch.nn.functional.local_response_norm,
// whose defaults are 1e-4, 0.75 and 1.
func LocalResponseNorm(input torch.Tensor, size int64, alpha, beta, k float64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		const op = "LocalResponseNorm"
		shape := input.Shape()
		if len(shape) < 3 {
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want 3 or more dimensions, found %v", shape))
		}
		if size < 1 {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "size must be positive, found %d", size))
		}
		if input.Numel() == 0 {
			return input
		}
		squares := input.Mul(input)
		if len(shape) == 3 {
			padded := call("aten::pad", squares.Unsqueeze(1), []int64{0, 0, size / 2, (size - 1) / 2})
			squares = call("aten::avg_pool2d", padded, []int64{size, 1}, []int64{1, 1}).SqueezeDim(1)
		} else {
			volume := squares.View(shape[0], 1, shape[1], shape[2], -1)
			padded := call("aten::pad", volume, []int64{0, 0, 0, 0, size / 2, (size - 1) / 2})
			squares = call("aten::avg_pool3d", padded, []int64{size, 1, 1},
				[]int64{1, 1, 1}).SqueezeDim(1).View(shape...)
		}
		return input.Div(squares.MulScalar(alpha).AddScalar(k).PowScalar(beta))
	})
}
