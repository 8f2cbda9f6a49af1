// Package resnet is the residual network that classifies pictures (He, Zhang, Ren and Sun, 2016) as
// torchvision builds it: the same names, the same initial bits for the same seed, the same numbers
// for the same weights.
//
//	model := resnet.ResNet18(nil)
//	_, err := nn.Load("resnet18-f37072fd.pth", model, nn.LoadOptions{})
//	model.FC = nn.NewLinear(model.NumFeatures, 2, nil) // a new head, for ants and bees
//
// Weight files of torchvision load by name, whether as downloaded or saved as safetensors, and
// torchvision loads what nn.Save writes. Package vision/transforms prepares the pictures.
//
// [Config] is the ResNet of transformers, whose weights have other names. Package auto loads and
// trains it:
//
//	model, err := auto.ImageClassification(ctx, "microsoft/resnet-50", auto.Options{
//		ID2Label: []string{"ant", "bee"}, InitMismatched: true})
package resnet

import (
	"cmp"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [ResNet18], [ResNet34] and [ResNet50]. Nil and the zero value mean
// torchvision's defaults.
type Options struct {
	NumClasses       int64 // zero: 1000, the classes of ImageNet
	ZeroInitResidual bool  // start every block as the identity, by setting its last normalisation to zero
}

// Model is a residual network with torchvision's parameter names.
type Model struct {
	Conv1   *nn.Conv2d            `module:"conv1"`
	BN1     *nn.BatchNorm2d       `module:"bn1"`
	ReLU    ReLU                  `module:"relu"`
	MaxPool *nn.MaxPool2d         `module:"maxpool"`
	Layer1  nn.Sequential         `module:"layer1"`
	Layer2  nn.Sequential         `module:"layer2"`
	Layer3  nn.Sequential         `module:"layer3"`
	Layer4  nn.Sequential         `module:"layer4"`
	AvgPool *nn.AdaptiveAvgPool2d `module:"avgpool"`
	FC      nn.Layer              `module:"fc"` // the head; replace it for other classes

	NumFeatures int64 // the number of FC's inputs for each picture
}

// ResNet18 makes the network of 18 layers with random weights, drawn from the default generator as
// torchvision draws them.
func ResNet18(o *Options) *Model { return build(newBasicBlock, 1, [4]int{2, 2, 2, 2}, o) }

// ResNet34 makes the network of 34 layers, like [ResNet18].
func ResNet34(o *Options) *Model { return build(newBasicBlock, 1, [4]int{3, 4, 6, 3}, o) }

// ResNet50 makes the network of 50 layers, like [ResNet18]. It strides in the 3x3 convolutions, as
// torchvision's does (version 1.5).
func ResNet50(o *Options) *Model { return build(newBottleneck, 4, [4]int{3, 4, 6, 3}, o) }

// newBlock makes a block that maps in channels to width·expansion channels. downsample, if not nil,
// maps the block's input to that number.
type newBlock func(in, width, stride int64, downsample nn.Sequential) nn.Layer

// build draws the layers in torchvision's order: first each layer as it is created, then the
// convolutions again.
func build(block newBlock, expansion int64, blocks [4]int, o *Options) *Model {
	if o == nil {
		o = &Options{}
	}
	m := &Model{
		Conv1: nn.NewConv2d(3, 64, nn.Dims{7}, &nn.ConvOptions{Stride: nn.Dims{2}, Padding: nn.Dims{3},
			NoBias: true}),
		BN1:         nn.NewBatchNorm2d(64, nil),
		MaxPool:     nn.NewMaxPool2d(nn.Dims{3}, &nn.MaxPoolOptions{Stride: nn.Dims{2}, Padding: nn.Dims{1}}),
		AvgPool:     nn.NewAdaptiveAvgPool2d(nn.Dims{1}),
		NumFeatures: 512 * expansion,
	}
	in := int64(64)
	for i, layer := range []*nn.Sequential{&m.Layer1, &m.Layer2, &m.Layer3, &m.Layer4} {
		width, stride := int64(64)<<i, int64(min(i+1, 2))
		for range blocks[i] {
			var downsample nn.Sequential
			if stride != 1 || in != width*expansion {
				downsample = nn.Sequential{conv1x1(in, width*expansion, stride), nn.NewBatchNorm2d(width*expansion,
					nil)}
			}
			*layer = append(*layer, block(in, width, stride, downsample))
			in, stride = width*expansion, 1
		}
	}
	m.FC = nn.NewLinear(m.NumFeatures, cmp.Or(o.NumClasses, 1000), nil)
	for _, l := range nn.Modules(m) {
		switch l := l.Module.(type) {
		case *nn.Conv2d:
			initialize.KaimingNormal(l.Weight, initialize.KaimingOptions{Mode: initialize.FanOut,
				Nonlinearity: initialize.ReLU})
		case interface{ last() *nn.BatchNorm2d }:
			if o.ZeroInitResidual {
				initialize.Zeros(l.last().Weight)
			}
		}
	}
	return m
}

// Forward maps pictures, [N, 3, height, width], to the outputs of the head, [N, classes].
func (m *Model) Forward(x torch.Tensor) torch.Tensor {
	return nn.Sequential{m.Conv1, m.BN1, m.ReLU, m.MaxPool, m.Layer1, m.Layer2, m.Layer3, m.Layer4, m.AvgPool,
		nn.NewFlatten(), m.FC}.Forward(x)
}

// ReLU is max(0, x), computed in place: torch.nn.ReLU(inplace=True).
type ReLU struct{}

// Forward changes x and returns it.
func (ReLU) Forward(x torch.Tensor) torch.Tensor { return x.ReLU_() }
