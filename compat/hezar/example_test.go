package hezar_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// plates returns pictures of 16 by 48 pixels that show two signs each: a bright bar at the height
// of the sign.
func plates(n int) data.Slice[crnn.Sample] {
	signs := []string{"۱", "۲", "ب"}
	out := make(data.Slice[crnn.Sample], n)
	for i := range out {
		a, b := i%3, i/3%3
		pixels := make([]float32, 16*48)
		for x := range 16 {
			pixels[(3+4*a)*48+4+x], pixels[(3+4*b)*48+28+x] = 1, 1
		}
		out[i] = crnn.Sample{Pixels: pixels, Text: signs[a] + signs[b]}
	}
	return out
}

func reader(charset ...string) (*crnn.Model, error) {
	return crnn.New(crnn.Config{Charset: append([]string{""}, charset...), ImageHeight: 16, ImageWidth: 48,
		ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8, RNNDim: 8})
}

// The program in Hezar's documentation, with generated plates and a small model: pretrained
// weights, another charset, and the best model by CER.
func Example() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	baseModelPath := filepath.Join(dir, "crnn-base") // "hezarai/crnn-fa-printed-96-long"
	if err := pretrain(baseModelPath); err != nil {
		log.Fatal(err)
	}

	trainDataset, evalDataset := plates(24), plates(9)
	model, err := reader("۱", "۲", "ب")
	if err != nil {
		log.Fatal(err)
	}
	trainConfig := hezar.TrainerConfig{
		OutputDir:          filepath.Join(dir, "crnn-plate-fa-v1"),
		Task:               "image2text",
		Device:             "cuda", // the CPU where there is no GPU
		InitWeightsFrom:    baseModelPath,
		BatchSize:          8,
		NumEpochs:          2,
		Metrics:            []string{"cer"},
		MetricForBestModel: "cer",
	}
	trainer, err := hezar.New(trainConfig, hezar.Image2Text(model), trainDataset, hezar.Options[crnn.Sample,
		crnn.Batch]{
		EvalDataset: evalDataset, RunName: "run", Output: io.Discard,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := trainer.Train(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("not taken over:", len(trainer.InitReport().Mismatched), "weights of the classifier")
	fmt.Println("best checkpoint by", trainer.State.MetricForBestCheckpoint+", which is to", trainer.Objective())
	files(trainConfig.OutputDir)
	// Output:
	// not taken over: 2 weights of the classifier
	// best checkpoint by evaluation.cer, which is to minimize
	// checkpoints/3/MANIFEST.json
	// checkpoints/3/model.pt
	// checkpoints/3/model_config.yaml
	// checkpoints/3/train/gotrainer_state.json
	// checkpoints/3/train/optimizer.pt
	// checkpoints/3/train/train_config.yaml
	// checkpoints/3/train/trainer_state.yaml
	// checkpoints/6/MANIFEST.json
	// checkpoints/6/model.pt
	// checkpoints/6/model_config.yaml
	// checkpoints/6/train/gotrainer_state.json
	// checkpoints/6/train/optimizer.pt
	// checkpoints/6/train/train_config.yaml
	// checkpoints/6/train/trainer_state.yaml
	// checkpoints/trainer_state.yaml
	// logs/run/events.out.tfevents
	// logs/run/training_logs.csv
}

// pretrain saves a model that knows more signs.
func pretrain(dir string) error {
	model, err := reader("۱", "۲", "۳", "ب", "پ")
	if err != nil {
		return err
	}
	trainer, err := hezar.New(hezar.TrainerConfig{OutputDir: dir + "-run", Task: "image2text", UseCPU: true},
		hezar.Image2Text(model), plates(2),
		hezar.Options[crnn.Sample, crnn.Batch]{EvalDataset: plates(1), Output: io.Discard})
	if err != nil {
		return err
	}
	defer trainer.Close()
	return trainer.Save(dir)
}

func files(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); err == nil && !e.IsDir() {
			if i := strings.Index(name, ".tfevents."); i > 0 {
				name = name[:i+len(".tfevents")]
			}
			fmt.Println(name)
		}
		return err
	})
}

// plateTrainer returns a Trainer for the examples below.
func plateTrainer(dir string, change func(*hezar.TrainerConfig, *hezar.Options[crnn.Sample,
	crnn.Batch])) *hezar.Trainer[crnn.Sample, crnn.Batch] {
	model, err := reader("۱", "۲", "ب")
	if err != nil {
		log.Fatal(err)
	}
	config := hezar.TrainerConfig{OutputDir: dir, Task: "image2text", UseCPU: true, BatchSize: 4,
		Metrics: []string{"cer", "wer"}}
	options := hezar.Options[crnn.Sample, crnn.Batch]{EvalDataset: plates(3), Output: io.Discard}
	change(&config, &options)
	trainer, err := hezar.New(config, hezar.Image2Text(model), plates(12), options)
	if err != nil {
		log.Fatal(err)
	}
	return trainer
}

// Resuming a run that was stopped: resume_from_checkpoint=True.
func Example_resume() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	first := plateTrainer(dir, func(c *hezar.TrainerConfig, o *hezar.Options[crnn.Sample, crnn.Batch]) {
		c.SaveSteps = hezar.Count(1)
		o.Overrides.AfterUpdate = func(*hezar.Trainer[crnn.Sample, crnn.Batch]) error {
			stop() // as a signal would
			return nil
		}
	})
	fmt.Println("first:", first.Train(ctx) != nil, first.State.GlobalStep)
	second := plateTrainer(dir, func(c *hezar.TrainerConfig, _ *hezar.Options[crnn.Sample, crnn.Batch]) {
		c.SaveSteps, c.ResumeFromCheckpoint = hezar.Count(1), hezar.Newest
	})
	fmt.Println("second begins at", second.State.GlobalStep)
	err = second.Train(context.Background())
	fmt.Println("and ends at", second.State.GlobalStep, "of", second.TotalSteps, err)
	// Output:
	// first: true 1
	// second begins at 1
	// and ends at 3 of 3 <nil>
}

// Custom optimizer and lr_scheduler: values of packages optim and optim/lr instead of names.
func ExampleOptions() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	trainer := plateTrainer(dir, func(c *hezar.TrainerConfig, o *hezar.Options[crnn.Sample, crnn.Batch]) {
		o.Optimizer = optim.Lion{LR: 1e-4}
		o.LRScheduler = lr.Linear{}
		c.LRSchedulingSteps = 1
	})
	fmt.Printf("the rate is %g", trainer.LearningRate())
	if err := trainer.Train(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf(" at the begin and %g at the end\n", trainer.LearningRate())
	// Output: the rate is 0.0001 at the begin and 0 at the end
}

// A subclass: overriding methods that call the overridden ones.
func ExampleOverrides() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	type Trainer = hezar.Trainer[crnn.Sample, crnn.Batch]
	trainer := plateTrainer(dir, func(c *hezar.TrainerConfig, o *hezar.Options[crnn.Sample, crnn.Batch]) {
		o.Overrides.TrainingStep = func(t *Trainer, b crnn.Batch) (torch.Tensor, error) {
			fmt.Println("batch", t.State.GlobalStep+1, "of", t.TotalSteps, b.Texts)
			return t.TrainingStep(b) // super().training_step(b)
		}
		c.DataloaderShuffle = new(false)
	})
	if err := trainer.Train(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// batch 1 of 3 [۱۱ ۲۱ ب۱ ۱۲]
	// batch 2 of 3 [۲۲ ب۲ ۱ب ۲ب]
	// batch 3 of 3 [بب ۱۱ ۲۱ ب۱]
}

// lengths is a custom MetricsHandler: it measures how much the lengths of the texts differ.
type lengths struct{ off, rows float64 }

func (l *lengths) Keys() []string          { return []string{"length_error"} }
func (l *lengths) Objective(string) string { return "minimize" }
func (l *lengths) Add(predictions, labels torch.Tensor) error {
	got, want := predictions.NeScalar(0).SumDim([]int64{1}, false, torch.Int64), labels.NeScalar(0).SumDim([]int64{1},
		false, torch.Int64)
	l.off += got.Sub(want).Abs().Sum(torch.DefaultDType).Item()
	l.rows += float64(labels.Size(0))
	return nil
}

func (l *lengths) Result() (map[string]float64, error) {
	defer func() { *l = lengths{} }()
	return map[string]float64{"length_error": l.off / max(1, l.rows)}, nil
}

func ExampleMetricsHandler() {
	dir, err := os.MkdirTemp("", "plates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	trainer := plateTrainer(dir, func(c *hezar.TrainerConfig, o *hezar.Options[crnn.Sample, crnn.Batch]) {
		o.MetricsHandler = &lengths{}
		c.MetricForBestModel = "length_error"
	})
	defer trainer.Close()
	logs, err := trainer.Evaluate(context.Background(), nil) // of the set given to New; nothing is logged
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(logs[0].Name, logs[1].Name)
	// Output: length_error loss
}

// Reading a configuration written by Python, and writing one for Python.
func ExampleLoadTrainerConfig() {
	config, err := hezar.LoadTrainerConfig("testdata/train_config.yaml")
	if err != nil {
		log.Fatal(err)
	}
	config.LRSchedulerKwargs = omegaconf.Map{{Key: "milestones", Value: []int{10, 20}}}
	fmt.Println(config.Task, config.MaxSteps, config.MetricForBestModel)
	// Output: image2text 0.5 evaluation.cer
}
