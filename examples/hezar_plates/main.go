// Command hezar_plates is a line-by-line translation of the first program of Hezar's documentation:
// a CRNN that learns to read the images of a data set, starting from the weights of another model.
//
//	# Pictures, train.csv, test.csv and the folder base, a model to start from.
//	go run ./examples/hezar_plates -small -render 400 plates
//	# Train, to a CER of 0.023 in 20 epochs; crnn-plate-fa-v1 is the run's folder.
//	go run ./examples/hezar_plates -small -lr 0.0005 plates
//	go run ./examples/hezar_plates -base hezarai/crnn-fa-printed-96-long DIR
//
// DIR is a folder, or a data set on the Hub such as hezarai/persian-license-plate-v1. DIR/train.csv
// and DIR/test.csv have the columns image_path and label. -small is a quarter of Hezar's width; its
// base has the weights of package platereader, except the classifier. Without -small an image takes
// about 80 ms of one core. Standard error lists the weights that the base lacks or has in another
// shape, such as those of a classifier for other labels.
package main

import (
	"context"
	"os"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
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
	baseModelPath := o.base
	// preprocessor = Preprocessor.load(base_model_path)
	preprocessor, err := hezar.LoadPreprocessor(ctx, baseModelPath)
	if err != nil {
		return err
	}
	// train_dataset = Dataset.load("hezarai/persian-license-plate-v1", split="train",
	// preprocessor=base_model_path, max_length=8, reverse_digits=True)
	settings := o.datasetOptions(preprocessor)
	trainDataset, err := hezar.LoadDataset[*datasets.OCR](ctx, o.data, "train", settings)
	if err != nil {
		return err
	}
	defer trainDataset.Close() //nolint:errcheck // it was only read
	// eval_dataset = Dataset.load("hezarai/persian-license-plate-v1", split="test",
	// preprocessor=base_model_path, max_length=8, reverse_digits=True)
	evalDataset, err := hezar.LoadDataset[*datasets.OCR](ctx, o.data, "test", settings)
	if err != nil {
		return err
	}
	defer evalDataset.Close() //nolint:errcheck // it was only read
	// model = CRNNImage2Text(CRNNImage2TextConfig.load(base_model_path,
	// id2label=train_dataset.config.id2label))
	model, err := o.model(ctx, trainDataset.Config.ID2Label, preprocessor)
	if err != nil {
		return err
	}
	// train_config = TrainerConfig(...)
	trainConfig := hezar.TrainerConfig{
		OutputDir:          o.out,         // output_dir="crnn-plate-fa-v1",
		Task:               "image2text",  // task="image2text",
		Device:             o.device,      // device="cuda", which is the CPU where there is no GPU
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
	trainer, err := hezar.New(trainConfig, hezar.OCR(model), trainDataset, hezar.OCROptions{
		EvalDataset: evalDataset, DataCollator: trainDataset.Collate, Preprocessor: preprocessor,
		DatasetConfig: trainDataset.Config.Map(), Rules: o.rules(),
	})
	if err != nil {
		return err
	}
	// trainer.train()
	return trainer.Train(ctx)
}
