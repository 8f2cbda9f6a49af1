package shard

// WriteFile is the function that writes a process's checkpoint file.
var WriteFile = &writeFile

// Trace calls f with each event of the model's units and the unit's index: gather, drop (what was
// gathered), compute, free and reduce (its gradients).
func (m *Model) Trace(f func(event string, unit int)) {
	m.prefetcher.trace = func(event string, u *Unit) {
		for i, other := range m.options.Units {
			if other == u {
				f(event, i)
			}
		}
	}
}
