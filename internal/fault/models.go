package main

import (
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The models of the victims, all with dropout, and samples that depend only on their index.

func crnnTask() (engine.Task[crnn.Sample, crnn.Batch], error) {
	m, err := crnn.New(crnn.Config{
		Charset: []string{"", "1", "2", "3"}, ImageWidth: 32, ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8,
		RNNDim: 8, NormalizeAll: true, Dropout: 0.2,
	})
	if err != nil {
		return nil, err
	}
	return crnn.NewTask(m), nil
}

func crnnSample(i int) crnn.Sample {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	s := crnn.Sample{Pixels: make([]float32, 32*32), Text: string(rune('1' + r.IntN(3)))}
	for k := range s.Pixels {
		s.Pixels[k] = 2*r.Float32() - 1
	}
	return s
}

func bertTask() (engine.Task[bert.Sample, bert.Batch], error) {
	m, err := bert.NewClassifier(bert.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 8, Head: bert.Head{NumLabels: 2}})
	if err != nil {
		return nil, err
	}
	return classify.NewTask(m, classify.TaskOptions{})
}

func bertSample(i int) bert.Sample {
	r := rand.New(rand.NewPCG(2, uint64(i)))
	s := bert.Sample{Label: r.Int64N(2)}
	for range 2 + r.IntN(6) { // batches must differ in length
		s.InputIDs = append(s.InputIDs, 1+r.Int64N(19))
	}
	return s
}

// perceptron is a cheap model for the soak.
type perceptron struct {
	Hidden  *nn.Linear  `module:"hidden"`
	Dropout *nn.Dropout `module:"dropout"`
	Out     *nn.Linear  `module:"out"`
}

func (p *perceptron) Forward(x torch.Tensor) torch.Tensor {
	return p.Out.Forward(p.Dropout.Forward(p.Hidden.Forward(x).ReLU()))
}

func mlpTask() (engine.Task[data.Example, engine.Examples], error) {
	return engine.Classify(&perceptron{nn.NewLinear(4, 16, nil), nn.NewDropout(0.2), nn.NewLinear(16, 2, nil)}), nil
}

func mlpSample(i int) data.Example {
	r := rand.New(rand.NewPCG(3, uint64(i)))
	e := data.Example{Class: r.Int64N(2)}
	for range 4 {
		e.Features = append(e.Features, 2*r.Float32()-1)
	}
	return e
}
