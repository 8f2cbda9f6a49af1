// Package sentence makes embeddings of texts, to search and to compare texts: SentenceTransformer
// of sentence-transformers 6.2, over the encoders of package auto. A model that was trained with
// either library loads in the other.
//
//	m, err := sentence.Load(ctx, "sentence-transformers/all-MiniLM-L6-v2", auto.Options{}) // or a folder
//	found, err := m.Encode(ctx, []string{"The weather is lovely today.", "It's so sunny!"}, sentence.EncodeOptions{})
//	scores, err := m.Similarity(found, found)
//
// A [Transformer] is an encoder, or a decoder such as Qwen3-Embedding, a [Pooling] that makes one
// vector from the hidden states of a text, and then [Dense] layers and [Normalize]. It is trained
// as SentenceTransformerTrainer does it: a [Sample] is some texts, such as a question and its
// answer, and a [Loss] says how far apart their embeddings should be.
//
//	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: sentence.MultipleNegativesRankingLoss{}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 2e-5}})
//	train := data.Map(pairs, func(p Pair) (sentence.Sample, error) { return m.Sample(p.Question, p.Answer) })
//
// Checkpoints of such a run are folders that [Load] and sentence-transformers read. Evaluations
// give the loss, and the results of every [Evaluator].
package sentence
