// Package hezar is the Trainer of Hezar, the framework for Persian, in Go: its configuration field
// by field, its loop method by method, its folders and files with the same text in them.
//
//	t, err := hezar.New(hezar.TrainerConfig{
//		OutputDir: "crnn-plate-fa-v1", Task: "image2text", InitWeightsFrom: "hezarai/crnn-fa-printed-96-long",
//		BatchSize: 8, NumEpochs: 20, Metrics: []string{"cer"}, MetricForBestModel: "cer",
//	}, hezar.Image2Text(model), train, hezar.Options[crnn.Sample, crnn.Batch]{EvalDataset: eval})
//	err = t.Train(ctx)
//
// # What is in a run's folder
//
//	crnn-plate-fa-v1/
//	  checkpoints/trainer_state.yaml          where the run stands
//	  checkpoints/0640/model.pt               state dict, model_config.yaml, preprocessor/
//	  checkpoints/0640/train/                 train_config.yaml, optimizer.pt, lr_scheduler.pt, dataset_config.yaml
//	  logs/Nov21_20-50-15_host/               training_logs.csv, events.out.tfevents.*
//
// Python's Hezar reads all of it, and a run that either of them began the other can continue. A
// checkpoint is whole or not there, and its MANIFEST.json tells a damaged one from a whole one.
//
// # Steps and windows
//
// A step is a batch, not an update: GlobalStep, MaxSteps, SaveSteps, LogSteps and the schedule
// count batches, and with GradientAccumulationSteps several of them make one update. The loss that
// is shown is the mean over all windows since the run began.
//
// # What is mended
//
// Hezar 1.0.0 has defects: a checkpoint within a window loses gradients, every epoch has the same
// order and the same dropout masks, metrics are means of batches, SaveEnabled false saves. [Rules]
// name them one by one. The zero value does the right thing; [Exact] is Hezar to the last bit, and
// passes the recorded runs of the conformance suite. What Hezar refuses late or not at all, New
// refuses.
//
// # Overriding methods
//
// [Overrides] has a field for every method that a subclass would override; the method it takes the
// place of is what super() is in Python.
//
// # The loop
//
// The loop is that of package trainer, in Hezar's order (semantics.HezarLoop): it calls the methods
// of the Trainer. So a run that is killed at any instant, or whose context ends, continues from its
// last checkpoint to the last bit, wherever in an epoch that is; the checkpoint has the state of
// the run besides Hezar's files. One of Python, or of [Exact], has counts alone.
package hezar
