package metrics

// Precision is [F1] with the precision as its main number: of what was predicted to be of a class,
// the share that is.
type Precision struct{ F1 }

// Name returns "precision".
func (p *Precision) Name() string { return "precision" }

// Recall is [F1] with the recall as its main number: of what is of a class, the share that was
// found.
type Recall struct{ F1 }

// Name returns "recall".
func (r *Recall) Name() string { return "recall" }
