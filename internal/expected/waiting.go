package expected

import (
	"encoding/json"
	"fmt"
)

// waiting makes the entries of a form whose part of gotrainer does not exist: each is there, and says what it waits for.
func waiting(reason string, fields ...string) func(d *document) ([]Entry, error) {
	return func(d *document) ([]Entry, error) {
		var entries []Entry
		wait := func() error { return &Unsupported{reason} }
		for _, field := range d.matching(fields) {
			var cases []json.RawMessage
			if field != "cases" || json.Unmarshal(d.fields[field], &cases) != nil {
				entries = append(entries, Entry{field, wait})
			}
			for i := range cases {
				entries = append(entries, Entry{fmt.Sprintf("%s[%d]", field, i), wait})
			}
		}
		return entries, nil
	}
}
