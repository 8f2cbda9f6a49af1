// Package sentence makes embeddings of texts, for search and to compare them: SentenceTransformer of
// sentence-transformers 6.2, over the encoders of package auto. It reads and writes its folders, so
// that a model that was trained here is loaded there, and the other way.
//
//	m, err := sentence.Load(ctx, "sentence-transformers/all-MiniLM-L6-v2", auto.Options{}) // or a folder
//	found, err := m.Encode(ctx, []string{"The weather is lovely today.", "It's so sunny!"}, sentence.EncodeOptions{})
//	scores, err := m.Similarity(found, found)
//
// A [Transformer] is an encoder, a [Pooling] that makes one vector of the hidden states of a text, and
// [Dense] layers and [Normalize] behind it. It is trained as SentenceTransformerTrainer does it: a
// [Sample] is some texts, such as a question and its answer, and a [Loss] says how far apart their
// embeddings should be.
//
//	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: sentence.MultipleNegativesRankingLoss{}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 2e-5}})
//	train := data.Map(pairs, func(p Pair) (sentence.Sample, error) { return m.Sample(p.Question, p.Answer) })
//
// Checkpoints of such a run are folders that [Load] and sentence-transformers read. Evaluations give the
// loss, and what an [Evaluator] measures.
package sentence
