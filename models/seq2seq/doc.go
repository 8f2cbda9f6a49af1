// Package seq2seq teaches models to write a text about another one, such as a translation or a
// summary: Seq2SeqTrainer of transformers, with DataCollatorForSeq2Seq. Package auto has models,
// whose Task is of this package:
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
// The loss is the cross-entropy of the second text, each of whose tokens is guessed of those before it
// and of the first text. An evaluation gives the loss, and with Write what metrics say of texts that
// the model wrote (predict_with_generate).
package seq2seq
