package hezar_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
)

// Hezar's examples/train/train_t5_text_summarization.py: a T5 is trained to summarize, and
// evaluated on the summaries that it generates. Here the base model and the data set are small folders.
func ExampleTextGeneration() {
	const (
		datasetPath   = "internal/generationtest/testdata/summaries" // "hezarai/xlsum-fa"
		baseModelPath = "internal/generationtest/testdata/t5"        // "hezarai/t5-base-fa"
		prefix        = "این متن را خلاصه کن: "
	)
	ctx := context.Background()
	preprocessor, err := hezar.LoadPreprocessor(ctx, baseModelPath)
	check(err)
	load := func(split string) *datasets.TextSummarization {
		d, err := hezar.LoadDataset[*datasets.TextSummarization](ctx, datasetPath, split, hezar.DatasetOptions{
			Preprocessor: preprocessor,
			Change: func(c *datasets.Config) {
				c.MaxLength, c.LabelsMaxLength, c.Prefix = 384, 80, prefix
			},
		})
		check(err)
		return d
	}
	trainDataset, evalDataset := load("train"), load("test")
	defer trainDataset.Close()
	defer evalDataset.Close()
	model, err := hezar.NewModelLike(ctx, baseModelPath, nil, preprocessor)
	check(err)
	dir, err := os.MkdirTemp("", "t5")
	check(err)
	defer os.RemoveAll(dir)

	trainer, err := hezar.New(hezar.TrainerConfig{
		OutputDir:       filepath.Join(dir, "t5-base-fa-xlsum"),
		Task:            "text_generation",
		Device:          "cpu", // "cuda"
		InitWeightsFrom: baseModelPath,
		BatchSize:       8,
		EvalBatchSize:   64,
		NumEpochs:       1, // 10
		Metrics:         []string{"rouge"},
	}, hezar.TextGeneration(model), trainDataset, hezar.TextGenerationOptions{
		EvalDataset: evalDataset, DataCollator: trainDataset.Collate, Preprocessor: preprocessor, Output: io.Discard,
		DatasetConfig: trainDataset.Config.Map(),
	})
	check(err)
	check(trainer.Train(ctx))

	logs, err := trainer.Evaluate(ctx, nil)
	check(err)
	for _, v := range logs {
		fmt.Print(v.Name, " ")
	}
	checkpoint, err := hezar.LoadModel(ctx, filepath.Join(dir, "t5-base-fa-xlsum", "checkpoints", "2"))
	check(err)
	summaries, err := checkpoint.Generate(ctx, hezar.Settings{"num_beams": 4, "max_new_tokens": 20},
		"the cat ran far in rain")
	fmt.Println(len(summaries), err)
	// Output: rouge1 rouge2 rougeL rougeLsum loss 1 <nil>
}
