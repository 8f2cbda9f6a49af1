package main

import (
	"github.com/gotrainer/gotrainer/data/digits"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func main() {
	engine.Main(engine.Classifier(func() nn.Layer {
		return nn.Sequential{nn.NewLinear(64, 128, nil), nn.ReLU{}, nn.NewLinear(128, 10, nil)}
	}), digits.Train(), digits.Test(), engine.Options{}, trainer.Options{
		OutputDir: "runs/digits", ResumeFrom: trainer.Latest, Epochs: 20, LearningRate: 0.01})
}
