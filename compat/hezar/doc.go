// Package hezar is the Trainer of Hezar, the framework for Persian, in Go: its configuration field
// by field, its loop method by method, and its folders and files with the same contents.
//
//	t, err := hezar.New(hezar.TrainerConfig{
//		OutputDir: "crnn-plate-fa-v1", Task: "image2text", InitWeightsFrom: "hezarai/crnn-fa-printed-96-long",
//		BatchSize: 8, NumEpochs: 20, Metrics: []string{"cer"}, MetricForBestModel: "cer",
//	}, hezar.Image2Text(model), train, hezar.Options[crnn.Sample, crnn.Batch]{EvalDataset: eval})
//	err = t.Train(ctx)
//
// # Models and data sets by their names
//
// [LoadModel] reads a model from a folder or the Hub; the model can predict, be saved and be
// pushed. [NewModel] makes one; [LoadDataset] reads a data set. [OCR], [TextClassification],
// [SequenceLabeling] and [TextGeneration] make them ready for a Trainer:
//
//	model, err := hezar.LoadModel(ctx, "hezarai/crnn-fa-printed-96-long")
//	predictions, err := model.Predict(ctx, "line.png")
//	train, err := hezar.LoadDataset[*datasets.OCR](ctx, "hezarai/persian-license-plate-v1", "train",
//		hezar.DatasetOptions{Preprocessor: model.Preprocessors})
//
// # What is in a run's folder
//
//	crnn-plate-fa-v1/
//	  checkpoints/trainer_state.yaml          where the run stands
//	  checkpoints/0640/model.pt               state dict, model_config.yaml, preprocessor/
//	  checkpoints/0640/train/                 train_config.yaml, optimizer.pt, lr_scheduler.pt, dataset_config.yaml
//	  logs/Nov21_20-50-15_host/               training_logs.csv, events.out.tfevents.*
//
// Python's Hezar reads all of it, and either side can continue a run that the other began. A
// checkpoint is either complete or absent, and its MANIFEST.json reveals a damaged one.
//
// # Steps and windows
//
// A step is a batch, not an update: GlobalStep, MaxSteps, SaveSteps, LogSteps and the schedule
// count batches. With GradientAccumulationSteps several batches make one update. The loss that is
// shown is the mean over all windows since the run began.
//
// # The loop
//
// The loop is that of package trainer in Hezar's order, and calls the methods of the Trainer, which
// [Overrides] replaces. A run that is killed at any instant, or whose context ends, continues from
// its last checkpoint to the last bit. [Rules] name the defects of Hezar 1.0.0 that are fixed.
package hezar
