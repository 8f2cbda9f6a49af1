package trainer

// What happens when a pass over a loader begins.

// startLoader lets the step draw what a DataLoader draws when a pass begins.
func (f *fit[S, B]) startLoader(train bool) error {
	if err := f.reseed(); err != nil {
		return err
	}
	for range f.iterators() {
		if err := f.t.step.StartLoader(train); err != nil {
			return f.stepError("start a loader", err)
		}
	}
	return nil
}

// iterators is how often a pass over a loader is begun.
func (f *fit[S, B]) iterators() int {
	if f.o.Semantics.TwoIterators {
		return 2
	}
	return 1
}

// reseed starts the random numbers anew for a pass, where the semantics want it.
func (f *fit[S, B]) reseed() error {
	if !f.o.Semantics.SeedEveryPass {
		return nil
	}
	return f.seed(SeedOptions{KeepModel: true})
}
