// Package metrics computes the numbers of an evaluation from predictions and references: classes,
// numbers, texts and tagged sequences. It does not use tensors.
//
// A metric takes pairs one at a time, and its result is that of the whole set, not an average of
// batches. The zero value of each is ready:
//
//	var cer metrics.CER
//	for i := range predictions {
//		cer.Add(predictions[i], references[i])
//	}
//	fmt.Println(cer.Result()["cer"])
//
// # The metrics
//
// Classes: [Accuracy], [F1], [Precision], [Recall], [Matthews], [ConfusionMatrix]; with a score for
// each class, [TopKAccuracy] and [ROCAUC]. Classes of pixels: [MeanIoU]. Objects in images:
// [MeanAveragePrecision]. Numbers: [MAE], [MSE], [RMSE], [R2], [Pearson], [Spearman]. Texts: [CER],
// [WER], [ExactMatch], [BLEU], [ROUGE], whose AddReferences takes several right answers; [Squad] of
// answers to questions; [Perplexity]. Tags: [Seqeval]. Search results: [Retrieval].
//
// The results are those of scikit-learn, SciPy, jiwer, NLTK, sacrebleu, rouge_score, seqeval,
// evaluate, pycocotools and sentence-transformers; the tests compare them. Each metric keeps only
// counts, so its memory does not grow with the set. The exceptions are Spearman, ROCAUC,
// [Concatenated] and MeanAveragePrecision, which need all samples.
//
// # Sets in parts
//
// State and Merge add up what several processes counted: see [Merger]. [BatchMean] turns any metric
// into the average over batches that some trainers report, [Concatenated] scores texts that are cut
// at different places, and [All] is several metrics at once.
package metrics

// Metric collects pairs of a prediction and its reference. Only one goroutine at a time may use
// it.
type Metric[P any] interface {
	// Name returns the metric's name, which is also the key of its main number in the result.
	Name() string
	Add(prediction, reference P)
	// Result returns the numbers of the pairs since the last Reset, by name.
	Result() map[string]float64
	Reset()
}

var (
	_ Metric[int]    = (*Accuracy[int])(nil)
	_ Metric[int]    = (*F1)(nil)
	_ Metric[string] = (*ExactMatch)(nil)
	_ Metric[string] = (*CER)(nil)
	_ Metric[string] = (*WER)(nil)
	_ Metric[string] = (*BatchMean[string])(nil)
	_ Metric[string] = (*Concatenated)(nil)
	_ Metric[string] = All[string](nil)
	_ Metric[string] = (*BLEU)(nil)
	_ Metric[string] = (*ROUGE)(nil)

	_ Metric[[]string] = (*Retrieval)(nil)
	_ Metric[int]      = (*Precision)(nil)
	_ Metric[int]      = (*Recall)(nil)
	_ Metric[int]      = (*Matthews)(nil)
	_ Metric[int]      = (*ConfusionMatrix)(nil)
	_ Metric[int]      = (*MeanIoU)(nil)
	_ Metric[float64]  = (*MAE)(nil)
	_ Metric[float64]  = (*MSE)(nil)
	_ Metric[float64]  = (*RMSE)(nil)
	_ Metric[float64]  = (*R2)(nil)
	_ Metric[float64]  = (*Pearson)(nil)
	_ Metric[float64]  = (*Spearman)(nil)
	_ Metric[[]string] = (*Seqeval)(nil)

	_ Scored = (*TopKAccuracy)(nil)
	_ Scored = (*ROCAUC)(nil)
)

// ratio returns a/b, and 0 for 0/0, as scikit-learn does with zero_division=0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
