package expected

// waiting makes the entries of a form whose part of gotrainer does not exist: each is there, and says what it waits for.
func waiting(reason string, fields ...string) func(d *document) ([]Entry, error) {
	return func(d *document) ([]Entry, error) {
		var entries []Entry
		for _, field := range d.matching(fields) {
			entries = append(entries, Entry{field, func() error { return &Unsupported{reason} }})
		}
		return entries, nil
	}
}
