// Command hezar_plates is the first program of Hezar's documentation, line by line: a CRNN that
// reads the pictures of a CSV file.
//
//	# Pictures, train.csv, test.csv and the folder base, a model to start from.
//	go run ./examples/hezar_plates -small -render 400 plates
//	# Train, to a CER of 0.33 in 20 epochs; crnn-plate-fa-v1 is the run's folder.
//	go run ./examples/hezar_plates -small -lr 0.001 plates
//	go run ./examples/hezar_plates -base hezarai/crnn-fa-printed-96-long DIR
//
// DIR/train.csv and DIR/test.csv have the columns image_path and label. -small is a quarter of
// Hezar's width; without it a picture takes about 80 ms of one core.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/run"
)

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		return execute(ctx, o)
	})
}

func execute(ctx context.Context, o options) error {
	if o.render > 0 {
		return render(o)
	}
	// base_model_path = "hezarai/crnn-fa-printed-96-long"
	baseModelPath, err := fetch(ctx, o.base)
	if err != nil {
		return err
	}
	// preprocessor = Preprocessor.load(base_model_path)
	preprocessor, err := preprocessors.Load(baseModelPath)
	if err != nil {
		return err
	}
	// train_dataset = Dataset.load("hezarai/persian-license-plate-v1", split="train",
	// preprocessor=base_model_path, max_length=8, reverse_digits=True)
	settings := datasets.OCROptions{MaxLength: 8, ReverseDigits: true}
	trainDataset, err := datasets.OpenOCR(filepath.Join(o.data, trainTable), preprocessor.Image, settings)
	if err != nil {
		return err
	}
	// eval_dataset = Dataset.load("hezarai/persian-license-plate-v1", split="test",
	// preprocessor=base_model_path, max_length=8, reverse_digits=True)
	evalDataset, err := datasets.OpenOCR(filepath.Join(o.data, testTable), preprocessor.Image, settings)
	if err != nil {
		return err
	}
	// model = CRNNImage2Text(CRNNImage2TextConfig(id2label=train_dataset.config.id2label))
	model, err := crnn.New(o.modelConfig(preprocessor.Image.Config))
	if err != nil {
		return err
	}
	// train_config = TrainerConfig(...)
	trainConfig := hezar.TrainerConfig{
		OutputDir:          o.out,         // output_dir="crnn-plate-fa-v1",
		Task:               "image2text",  // task="image2text",
		Device:             "cuda",        // device="cuda", which is the CPU where there is no GPU
		InitWeightsFrom:    baseModelPath, // init_weights_from=base_model_path,
		BatchSize:          8,             // batch_size=8,
		NumEpochs:          o.epochs,      // num_epochs=20,
		Metrics:            []string{"cer"},
		MetricForBestModel: "cer", // metrics=["cer"], metric_for_best_model="cer",
		LearningRate:       o.rate,
	}
	// trainer = Trainer(config=train_config, model=model, train_dataset=train_dataset,
	// eval_dataset=eval_dataset,
	//                   data_collator=train_dataset.data_collator, preprocessor=preprocessor)
	trainer, err := hezar.New(trainConfig, hezar.Image2Text(model), samples(trainDataset), hezar.Options[crnn.Sample,
		crnn.Batch]{
		EvalDataset: samples(evalDataset), Preprocessor: preprocessor, DatasetConfig: datasetConfig(o.data, settings),
		Rules: o.rules(),
	})
	if err != nil {
		return err
	}
	// trainer.train()
	return trainer.Train(ctx)
}
