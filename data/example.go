package data

// Example is a sample to be classified: a vector of features and the class it belongs to.
type Example struct {
	Features []float32
	Class    int64
}
