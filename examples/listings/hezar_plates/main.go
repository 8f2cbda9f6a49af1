// Command hezar_plates is the listing of Hezar's Trainer Overview: a CRNN that learns to read
// license plates.
package main

import (
	"context"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/run"
)

const baseModelPath = "hezarai/crnn-fa-printed-96-long"

var trainConfig = hezar.TrainerConfig{
	OutputDir:          "crnn-plate-fa-v1",
	Task:               "image2text",
	Device:             "cuda", // the CPU where there is no GPU
	InitWeightsFrom:    baseModelPath,
	BatchSize:          8,
	NumEpochs:          20,
	Metrics:            []string{"cer"},
	MetricForBestModel: "cer",
}

func main() { run.Main(train) }

func train(ctx context.Context) error {
	preprocessor, err := hezar.LoadPreprocessor(ctx, baseModelPath)
	if err != nil {
		return err
	}
	load := func(split string) (*datasets.OCR, error) {
		return hezar.LoadDataset[*datasets.OCR](ctx, "hezarai/persian-license-plate-v1", split, hezar.DatasetOptions{
			Preprocessor: preprocessor,
			Change:       func(c *datasets.Config) { c.MaxLength, c.ReverseDigits = 8, new(true) },
		})
	}
	trainDataset, err := load("train")
	if err != nil {
		return err
	}
	evalDataset, err := load("test")
	if err != nil {
		return err
	}
	model, err := hezar.NewModel("crnn_image2text", hezar.Settings{"id2label": trainDataset.Config.ID2Label},
		preprocessor)
	if err != nil {
		return err
	}
	trainer, err := hezar.New(trainConfig, hezar.OCR(model), trainDataset, hezar.OCROptions{
		EvalDataset:  evalDataset,
		DataCollator: trainDataset.Collate,
		Preprocessor: preprocessor,
	})
	if err != nil {
		return err
	}
	return trainer.Train(ctx)
}
