package pymarlin_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// still is the net of testdata/checkpoints.py, which has no dropout.
type still struct{ *net }

func (s still) TrainStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	s.SetTraining(false) // only affects dropout
	return s.net.TrainStep(step, b, d)
}

// nearFile compares a module with the weights in a file. They are identical on the machine that
// wrote the file; other processors round the square roots in AdamW differently.
func nearFile(t *testing.T, claim string, n *net, path string) {
	t.Helper()
	want := newNet(1)
	if _, err := nn.Load(path, want, nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	a, b := weights(n), weights(want)
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); !(d <= 1e-6) {
			t.Errorf("%s: weight %d is %g, want %g", claim, i, a[i], b[i])
		}
	}
}

func TestGoGoesOnFromPyMarlinsCheckpoint(t *testing.T) {
	testenv.RequireTorch(t)
	n := newNet(12)
	trainer, err := pymarlin.New(pymarlin.ModuleInterface[batch](still{n}),
		quiet(pymarlin.TrainerArguments{Epochs: 2, TrainBatchSize: 6, GPUBatchSizeLimit: 2,
			CheckpointerArgs: pymarlin.CheckpointerArguments{LoadDir: "testdata", LoadFilename: "model_0.pt",
				NoCheckpoint: true}}), options())
	if err != nil {
		t.Fatal(err)
	}
	torch.ManualSeed(5)
	if err := trainer.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if trainer.GlobalStepsFinished() != 4 || trainer.LastEpoch() != 1 {
		t.Errorf("%d updates up to epoch %d, want 4 up to 1", trainer.GlobalStepsFinished(), trainer.LastEpoch())
	}
	nearFile(t, "after PyMarlin's first epoch and one here", n, filepath.Join("testdata", "final.safetensors"))
}

// This test needs a Python with PyMarlin, whose path is in the variable PYTHON.
func TestPyMarlinGoesOnFromGosCheckpoint(t *testing.T) {
	testenv.RequireTorch(t)
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import torch, safetensors, importlib.util as u; assert "+
		"u.find_spec('pymarlin')").Run(); err != nil {
		t.Skipf("%s has no PyMarlin (%v); PYTHON names another interpreter", python, err)
	}
	for _, inexact := range []bool{false, true} {
		dir := t.TempDir()
		args := pymarlin.TrainerArguments{TrainBatchSize: 6, GPUBatchSizeLimit: 2,
			CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: dir, NoModelState: true}}
		o := options()
		o.InexactResume = inexact
		trainer, err := pymarlin.New(pymarlin.ModuleInterface[batch](still{newNet(12)}), quiet(args), o)
		if err != nil {
			t.Fatal(err)
		}
		torch.ManualSeed(5)
		if err := trainer.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(python, filepath.Join("testdata", "checkpoints.py"), "continue", dir)
		var said bytes.Buffer
		c.Stdout, c.Stderr = &said, &said
		if err := c.Run(); err != nil {
			t.Fatalf("checkpoints.py: %v\n%s", err, &said)
		}
		n := newNet(12)
		args.Epochs, args.CheckpointerArgs = 2, pymarlin.CheckpointerArguments{LoadDir: dir, NoCheckpoint: true}
		o.InexactResume = true // the Python script seeds the generators again
		trainer, err = pymarlin.New(pymarlin.ModuleInterface[batch](still{n}), quiet(args), o)
		if err != nil {
			t.Fatal(err)
		}
		torch.ManualSeed(5)
		if err := trainer.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		nearFile(t, "PyMarlin after an epoch of Go", n, filepath.Join(dir, "final.safetensors"))
	}
}
