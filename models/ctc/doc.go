// Package ctc trains models that give every frame of a speech a letter or the blank, with the loss
// of connectionist temporal classification (Graves et al., 2006), as transformers'
// run_speech_recognition_ctc.py does:
//
//	m, err := auto.CTC(ctx, "facebook/wav2vec2-base", auto.Options{})
//	task, err := ctc.NewTask(m, ctc.TaskOptions{Decode: m.Decode, Metrics: []metrics.Metric[string]{&metrics.WER{}}})
//	step, err := engine.New(task, engine.Options{})
//
// Speech is padded to the longest of a batch, and labels are not padded at all.
package ctc
