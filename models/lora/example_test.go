package lora_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/data/digits"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// reader is a network with an adapter, which alone is in checkpoints.
type reader struct {
	Net           nn.Sequential `module:"net"`
	*lora.Adapter `module:"-"`
}

func (r *reader) Forward(x torch.Tensor) torch.Tensor { return r.Net.Forward(x) }

// An existing network learns digits by training 4 % of its weights.
func ExampleAdd() {
	torch.ManualSeed(1)
	model := &reader{Net: nn.Sequential{nn.NewLinear(64, 512, nil), nn.ReLU{}, nn.NewLinear(512, 512, nil), nn.ReLU{},
		nn.NewLinear(512, 10, nil)}}
	adapter, err := lora.Add(model, lora.Config{R: 4, Alpha: 8, TargetModules: []string{"net.0", "net.2"},
		ModulesToSave: []string{"net.4"}})
	if err != nil {
		log.Fatal(err)
	}
	model.Adapter = adapter
	all, trained := nn.CountParams(model)
	fmt.Printf("%d of %d weights are trained\n", trained, all)

	dir, err := os.MkdirTemp("", "lora")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	step, err := engine.New(engine.Classify(model), engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 5, LearningRate: 1e-2, Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	result, err := t.Fit(context.Background(), digits.Train(), digits.Test())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("above 90 %:", result.Best.Metrics["eval_accuracy"] > 0.9)
	files, err := filepath.Glob(filepath.Join(result.Checkpoint, "*model*"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(files[0]))
	// Output:
	// 11530 of 307466 weights are trained
	// above 90 %: true
	// adapter_model.safetensors
}
