// Package data supplies a run with samples: data sets, the order in which they are visited, and a
// loader that decodes and collates them in goroutines ahead of the training loop.
//
// A data set is anything with a length and a sample at each index. Slices, functions and files can
// be data sets:
//
//	lines := data.Slice[string](text)
//	train, valid, err := data.Split(lines, 0.9, 42)
//	codes := data.Map(train, func(s string) ([]int64, error) { return encode(s) })
//
// A loader visits it in an [Order] and hands out batches, one epoch at a time:
//
//	loader, err := data.NewLoader(codes, pad, data.LoaderOptions{BatchSize: 8, Order: data.Shuffled{Seed: 42}})
//	for batch, err := range loader.Epoch(ctx, epoch, 0) {
//		...
//	}
//
// # Guarantees
//
// The batches of an epoch and their order depend only on the data set, the order and the batch
// size. They do not depend on the number of workers, the load of the machine, or whether the epoch
// was entered in the middle. [Shuffled] visits samples in the exact order of PyTorch's generator
// under Hugging Face's Trainer, so a run can be compared with its Python original batch by batch.
// When a range over an epoch ends, for whatever reason, its goroutines have ended too.
//
// # Operations
//
// The names are those of Hugging Face's datasets or PyTorch: [Map], [Filter], [Subset], [Shuffle],
// [SortBy], [Take], [Skip], [Repeat], [TrainTestSplit], [Concat], [Interleave], [Batch], [Flatten],
// [Enumerate]; [Part] and [Stride] correspond to shard. Each is lazy: it returns a data set that
// finds its samples in the underlying one in O(1) and holds indices at most. [Filter], [SortBy] and
// [Collect] look at every sample once when they are called, in several goroutines. [Cache] and
// [CacheOnDisk] keep samples that are expensive to make. For the same seed, Shuffle and
// TrainTestSplit give the same rows as datasets, and [Split] and [Shuffled] the same as PyTorch.
//
// # Padding
//
// [Pad] and [PadField] make a matrix from sequences of different lengths. [Collator] does this for
// a whole batch of structs, like Hugging Face's DataCollatorWithPadding. [GroupedByLength] groups
// sequences of similar length.
//
// # Streams
//
// A [Stream] has no length: its files are read once and in order. The streams of the packages below
// can be entered at any sample, so that a resumed run does not read from the beginning;
// [ShuffleStream] and [StrideStream] preserve this.
//
// # Where things are
//
// Package data handles bytes and samples; it knows neither tensors nor devices. Readers of file
// formats are in the folders below it: [github.com/gotrainer/gotrainer/data/table] for CSV, TSV,
// JSONL and lines, [github.com/gotrainer/gotrainer/data/parquet],
// [github.com/gotrainer/gotrainer/data/folder] for folders with one subfolder per class,
// [github.com/gotrainer/gotrainer/data/webdataset] for tar shards,
// [github.com/gotrainer/gotrainer/data/glue] and [github.com/gotrainer/gotrainer/data/idx].
// docs/data.md says which to use.
package data

// Dataset is a sized collection of samples. At is called by several goroutines at a time, with 0 <=
// i < Len().
type Dataset[S any] interface {
	Len() int
	At(i int) (S, error)
}

// Describer is implemented by a data set that can say what its sample i is, such as the name of its
// file. The loader adds this to errors about the sample. The data sets of this package that wrap
// another one pass it on.
type Describer interface {
	Describe(i int) string
}

// describe returns d's description of sample i, or an empty string if d has none.
func describe(d any, i int) string {
	if d, ok := d.(Describer); ok {
		return d.Describe(i)
	}
	return ""
}
