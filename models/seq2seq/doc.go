// Package seq2seq trains models that generate a text from another one, such as a translation or a
// summary, from an image or from speech: Seq2SeqTrainer of transformers, with DataCollatorForSeq2Seq. Package
// auto has the models; their Task is of this package:
//
//	m, err := auto.Seq2SeqLM(ctx, "google-t5/t5-small", auto.Options{})
//	m.Tokenizer, err = m.Tokenizer.WithTruncation(&text.Truncation{MaxLength: 512})
//	write, err := m.Writer(auto.Generation{MaxNewTokens: 60})
//	task, err := seq2seq.NewTask(m, seq2seq.TaskOptions{Write: write,
//		Metrics: []metrics.Metric[string]{&metrics.ROUGE{}}})
//	step, err := engine.New(task, engine.Options{})
//	train := data.Map(articles, func(a Article) (seq2seq.Sample, error) {
//		return m.Encode("summarize: "+a.Text, a.Summary)
//	})
//
// [ImageTask] is the same for images and the text in them:
//
//	m, err := auto.ImageToText(ctx, "microsoft/trocr-small-printed", auto.Options{})
//	task, err := seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{})
//	train := data.Map(plates, func(p Plate) (seq2seq.ImageSample, error) {
//		return m.EncodeFile(p.Path, p.Text)
//	})
//
// [SpeechTask] is the same for speech:
//
//	m, err := auto.SpeechToText(ctx, "openai/whisper-small", auto.Options{})
//	task, err := seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{})
//	train := data.Map(clips, func(c Clip) (seq2seq.SpeechSample, error) {
//		return m.EncodeFile(c.Path, c.Text)
//	})
//
// The loss is the cross-entropy of the second text, where each token is predicted from those before
// it and from the first text, the image or the speech. An evaluation gives the loss. With Write it also gives
// metrics of the texts that the model generates (predict_with_generate).
package seq2seq
