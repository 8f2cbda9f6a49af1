package trainer

// Optional interfaces of a [Step] that concern memory and what is left of an earlier run.

// CacheEmptier is implemented by a [Step] that can give memory which it keeps for later back to the
// device: torch.cuda.empty_cache(). [Options].EmptyCacheSteps and AutoFindBatchSize need it.
type CacheEmptier interface {
	EmptyCache() error
}

// MemoryJudge is implemented by a [Step] that can tell whether an error means that the memory of
// the device does not suffice. [Options].AutoFindBatchSize needs it.
type MemoryJudge interface {
	OutOfMemory(err error) bool
}

// GradientZeroer is implemented by a [Step] whose gradients may hold something when a run begins,
// since the run before was stopped inside a window. Fit calls ZeroGrad before the first batch.
type GradientZeroer interface {
	ZeroGrad() error
}

// Initializer is implemented by a [Step] that can make its model and optimizer anew for each run:
// model_init of Hugging Face. Fit calls InitModel before anything is loaded. A step that was given
// no way to make a model does nothing; every other calls seed, which starts the random numbers
// anew, and makes its model.
type Initializer interface {
	InitModel(seed func() error) error
}
