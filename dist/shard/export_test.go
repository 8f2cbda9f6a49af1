package shard

// WriteFile is how the processes of a test write their files.
var WriteFile = &writeFile

// Trace has f told of what the units of a model do, by their place among them: gather (or drop what
// was gathered), compute, and reduce their gradients.
func (m *Model) Trace(f func(event string, unit int)) {
	m.prefetcher.trace = func(event string, u *Unit) {
		for i, other := range m.options.Units {
			if other == u {
				f(event, i)
			}
		}
	}
}
