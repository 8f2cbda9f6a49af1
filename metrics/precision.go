package metrics

// Precision is [F1] with precision as its main number: the share of correct ones among what was
// predicted to be in a class.
type Precision struct{ F1 }

// Name returns "precision".
func (p *Precision) Name() string { return "precision" }

// Recall is [F1] with recall as its main number: the share of a class that was found.
type Recall struct{ F1 }

// Name returns "recall".
func (r *Recall) Name() string { return "recall" }
