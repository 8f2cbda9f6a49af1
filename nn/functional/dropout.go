package functional

import "github.com/gotrainer/gotrainer/torch"

// Dropout1d zeroes whole channels of [N, C, L] or [C, L] with probability p while training:
// torch.nn.functional.dropout1d.
func Dropout1d(input torch.Tensor, p float64, training bool) torch.Tensor {
	return featureDropout("Dropout1d", input, p, training, 2)
}

// Dropout2d zeroes whole channels of [N, C, H, W] with probability p while training:
// torch.nn.functional.dropout2d. As in PyTorch, three dimensions are taken as [N, C, L].
func Dropout2d(input torch.Tensor, p float64, training bool) torch.Tensor {
	checkProbability("Dropout2d", p)
	if d := input.Dim(); d != 3 && d != 4 {
		panic(torch.Errorf("functional.Dropout2d", torch.ErrInvalid, "want [N, C, H, W] or [N, C, L], found %v",
			input.Shape()))
	}
	return call("aten::feature_dropout", input, p, training)
}

// Dropout3d zeroes whole channels of [N, C, D, H, W] or [C, D, H, W] with probability p while
// training: torch.nn.functional.dropout3d.
func Dropout3d(input torch.Tensor, p float64, training bool) torch.Tensor {
	return featureDropout("Dropout3d", input, p, training, 4)
}

// featureDropout takes inputs of dims dimensions, or dims+1 with a batch.
func featureDropout(op string, input torch.Tensor, p float64, training bool, dims int) torch.Tensor {
	checkProbability(op, p)
	switch input.Dim() {
	case dims:
		return torch.Return(func() torch.Tensor {
			return call("aten::feature_dropout", input.Unsqueeze(0), p, training).SqueezeDim(0)
		})
	case dims + 1:
		return call("aten::feature_dropout", input, p, training)
	}
	panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v", dims,
		dims+1,
		input.Shape()))
}

// AlphaDropout is dropout that preserves mean and variance after [SELU]:
// torch.nn.functional.alpha_dropout.
func AlphaDropout(input torch.Tensor, p float64, training bool) torch.Tensor {
	checkProbability("AlphaDropout", p)
	return call("aten::alpha_dropout", input, p, training)
}

// FeatureAlphaDropout is [AlphaDropout] for whole channels:
// torch.nn.functional.feature_alpha_dropout.
func FeatureAlphaDropout(input torch.Tensor, p float64, training bool) torch.Tensor {
	checkProbability("FeatureAlphaDropout", p)
	return call("aten::feature_alpha_dropout", input, p, training)
}
