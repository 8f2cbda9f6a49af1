// Package crossencoder scores pairs of texts, such as a question and a document that may answer it:
// CrossEncoder of sentence-transformers 6.2, over the classifiers and the language models of package
// auto. A model that was trained with either library loads in the other.
//
//	m, err := crossencoder.Load(ctx, "cross-encoder/ms-marco-MiniLM-L6-v2", auto.Options{}) // or a folder
//	ranking, err := m.Rank(ctx, "How many people live in Berlin?", documents, crossencoder.RankOptions{TopK: 3})
//
// A [CrossEncoder] reads both texts of a pair together, so it is slower than a model of package
// sentence and more accurate. Programs let such a model find some documents, and rank these. A
// cross encoder with one label gives scores, and one with several tells classes.
//
// A language model judges in words, as Qwen3-Reranker does: its chat template writes a question about
// a pair, and the score is the logit of the answer "yes" minus that of "no" ([LogitScore],
// [Messages]). [Load] reads the folders of such models, and [NewWithLogitScore] takes any language
// model of package auto.
//
// It is trained as CrossEncoderTrainer does it: a [Sample] is a query with its documents and their
// labels, and a [Loss] says which scores they should get.
//
//	m, err := crossencoder.Load(ctx, "microsoft/mpnet-base", auto.Options{}) // draws a head with one label
//	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.BinaryCrossEntropyLoss{}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 2e-5}})
//	train := data.Slice[crossencoder.Sample]{{Query: "...", Documents: []string{"..."}, Labels: []float32{1}}}
//
// Checkpoints of such a run are folders that [Load] and sentence-transformers read. Evaluations
// give the loss, and the results of every [Evaluator].
package crossencoder
