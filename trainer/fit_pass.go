package trainer

// What happens when a pass over a loader begins.

// startLoader lets the step draw what a DataLoader draws when a pass begins.
func (f *fit[S, B]) startLoader(train bool) error {
	if err := f.reseed(); err != nil {
		return err
	}
	o, ok := f.t.step.(LoaderObserver)
	if !ok {
		return nil
	}
	for range f.iterators() {
		if err := o.StartLoader(train); err != nil {
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
	if r, ok := f.t.step.(Reseeder); ok {
		return f.stepError("seed", r.Reseed(f.o.Seed))
	}
	return f.seed()
}

// keepEvalMode tells the step whether its model may be put back into training mode, where the
// semantics leave it in evaluation mode.
func (f *fit[S, B]) keepEvalMode(keep bool) {
	if f.o.Semantics.StayInEvalMode {
		f.t.step.(ModeKeeper).KeepEvalMode(keep) // New has checked that it is one
	}
}
