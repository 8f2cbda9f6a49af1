package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// What is drawn at random, and what a schedule moves, goes on after a resume as if nothing had happened.
func TestResumeOfRandomAndMovedThingsIsBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	for name, c := range map[string]struct {
		hfCase
		order func(s *tagStep) data.Order
	}{
		"length groups": {hfCase{dropout: 0.2}, func(s *tagStep) data.Order {
			return data.GroupedByLength{Lengths: lengths(train), BatchSize: 4, Random: s.GlobalPermutation()}
		}},
		"random sampler": {hfCase{dropout: 0.2}, (*tagStep).RandomSampler},
		"NEFTune":        {hfCase{options: engine.Options{NEFTuneAlpha: 5}}, nil},
		"checkpointing":  {hfCase{dropout: 0.2, options: engine.Options{GradientCheckpointing: true}}, nil},
		"model init":     {hfCase{dropout: 0.2, init: true}, nil},
		"momentum of SGD": {hfCase{schedule: lr.OneCycleLR{MaxLR: 0.1},
			options: engine.Options{Optimizer: optim.SGD{LR: 0.1}}}, nil},
		"beta1 of AdamW": {hfCase{schedule: lr.OneCycleLR{MaxLR: 0.1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(from, dir string) (*tagStep, [][]int) {
				torch.ManualSeed(9)
				var s *tagStep
				var err error
				make := func() (engine.Task[tokens, tokenBatch], error) { return &tagTask{newTagger(c.dropout)}, nil }
				if c.init {
					s, err = engine.NewFromInit(make, c.options)
				} else {
					task, _ := make()
					s, err = engine.New(task, c.options)
				}
				if err != nil {
					t.Fatal(err)
				}
				o := quiet(trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 4, Schedule: c.schedule, ResumeFrom: from})
				if dir != "" {
					o.Save = trainer.Every(3, trainer.Update)
				}
				watch := &seen{tagStep: s}
				if c.order != nil {
					o.Order = c.order(s)
				}
				fit, err := trainer.New(watch, o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fit.Fit(t.Context(), train, nil); err != nil {
					t.Fatalf("from %q: %v", from, err)
				}
				return s, watch.batches
			}
			dir := t.TempDir()
			whole, batches := run("", dir)
			want := tagFingerprint(whole)
			for _, k := range []int{3, 6, 9} { // within, and at the end of, the first of two epochs of six updates; within the second
				part, rest := run(filepath.Join(dir, fmt.Sprintf("checkpoint-%d", k)), "")
				if !slices.EqualFunc(rest, batches[k:], slices.Equal) {
					t.Errorf("resumed from update %d: trained on %v, want %v", k, rest, batches[k:])
				}
				if tagFingerprint(part) != want {
					t.Errorf("resumed from update %d: weights, optimizer or generator differ from those of the whole run", k)
				}
			}
		})
	}
}

func tagFingerprint(s *tagStep) string {
	var all []byte
	for _, p := range slices.Concat(nn.StateDict(s.Model()), s.Optimizer().State()) {
		all = append(all, p.Tensor.Bytes()...)
	}
	return string(append(all, torch.DefaultGenerator(torch.CPU).State()...))
}

// The order of PyTorch's DataLoader(shuffle=True) after torch.manual_seed(3): two epochs of seven samples.
func TestRandomSamplerIsPyTorchs(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	if err := s.Seed(3); err != nil {
		t.Fatal(err)
	}
	order := s.RandomSampler()
	for epoch, want := range [][]int{{3, 2, 5, 4, 1, 0, 6}, {3, 1, 6, 0, 2, 4, 5}} {
		if err := s.StartLoader(true); err != nil {
			t.Fatal(err)
		}
		first, again := order.Indices(epoch, 7), order.Indices(epoch, 7)
		if !slices.Equal(first, want) || !slices.Equal(again, want) {
			t.Errorf("epoch %d is %v, asked again %v; want %v", epoch, first, again, want)
		}
	}
}
