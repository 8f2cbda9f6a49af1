package resnet

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// BasicBlock is two 3x3 convolutions and a shortcut past them: the block of ResNet-18 and
// ResNet-34.
type BasicBlock struct {
	Conv1      *nn.Conv2d      `module:"conv1"`
	BN1        *nn.BatchNorm2d `module:"bn1"`
	ReLU       ReLU            `module:"relu"`
	Conv2      *nn.Conv2d      `module:"conv2"`
	BN2        *nn.BatchNorm2d `module:"bn2"`
	Downsample nn.Sequential   `module:"downsample"` // of the shortcut; nil if sizes are equal
}

func newBasicBlock(in, width, stride int64, downsample nn.Sequential) nn.Layer {
	return &BasicBlock{
		Conv1:      conv3x3(in, width, stride),
		BN1:        nn.NewBatchNorm2d(width, nil),
		Conv2:      conv3x3(width, width, 1),
		BN2:        nn.NewBatchNorm2d(width, nil),
		Downsample: downsample,
	}
}

// Forward maps [N, in, H, W] to [N, out, H/stride, W/stride].
func (b *BasicBlock) Forward(x torch.Tensor) torch.Tensor {
	return shortcut(x, nn.Sequential{b.Conv1, b.BN1, b.ReLU, b.Conv2, b.BN2}, b.Downsample)
}

func (b *BasicBlock) last() *nn.BatchNorm2d { return b.BN2 }

// Bottleneck is a 3x3 convolution with few channels between two of 1x1, and a shortcut past them:
// the block of ResNet-50.
type Bottleneck struct {
	Conv1      *nn.Conv2d      `module:"conv1"`
	BN1        *nn.BatchNorm2d `module:"bn1"`
	Conv2      *nn.Conv2d      `module:"conv2"`
	BN2        *nn.BatchNorm2d `module:"bn2"`
	Conv3      *nn.Conv2d      `module:"conv3"`
	BN3        *nn.BatchNorm2d `module:"bn3"`
	ReLU       ReLU            `module:"relu"`
	Downsample nn.Sequential   `module:"downsample"` // of the shortcut; nil if sizes are equal
}

func newBottleneck(in, width, stride int64, downsample nn.Sequential) nn.Layer {
	return &Bottleneck{
		Conv1:      conv1x1(in, width, 1),
		BN1:        nn.NewBatchNorm2d(width, nil),
		Conv2:      conv3x3(width, width, stride),
		BN2:        nn.NewBatchNorm2d(width, nil),
		Conv3:      conv1x1(width, 4*width, 1),
		BN3:        nn.NewBatchNorm2d(4*width, nil),
		Downsample: downsample,
	}
}

// Forward maps [N, in, H, W] to [N, out, H/stride, W/stride].
func (b *Bottleneck) Forward(x torch.Tensor) torch.Tensor {
	return shortcut(x, nn.Sequential{b.Conv1, b.BN1, b.ReLU, b.Conv2, b.BN2, b.ReLU, b.Conv3, b.BN3}, b.Downsample)
}

func (b *Bottleneck) last() *nn.BatchNorm2d { return b.BN3 }

// shortcut adds x, downsampled if needed, to the output of the layers.
func shortcut(x torch.Tensor, layers, downsample nn.Sequential) torch.Tensor {
	y := layers.Forward(x)
	if downsample == nil {
		return y.Add_(x).ReLU_()
	}
	identity := downsample.Forward(x)
	defer identity.Free()
	return y.Add_(identity).ReLU_()
}

func conv3x3(in, out, stride int64) *nn.Conv2d {
	return nn.NewConv2d(in, out, nn.Dims{3}, &nn.ConvOptions{Stride: nn.Dims{stride}, Padding: nn.Dims{1},
		NoBias: true})
}

func conv1x1(in, out, stride int64) *nn.Conv2d {
	return nn.NewConv2d(in, out, nn.Dims{1}, &nn.ConvOptions{Stride: nn.Dims{stride}, NoBias: true})
}
