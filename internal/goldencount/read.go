package goldencount

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Read returns the records in a file.
func Read(in io.Reader) ([]Record, error) {
	var list []Record
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, r)
	}
	return list, lines.Err()
}

// Join merges the records of each case, sorted by family and name. Cases without comparisons are
// left out. Test is that of one of the records.
func Join(records []Record) []Record {
	type key struct{ family, name string }
	joined := map[key]Record{}
	for _, r := range records {
		k := key{r.Family, r.Name}
		old := joined[k]
		r.Compared += old.Compared
		r.Equal += old.Equal
		r.Failed = r.Failed || old.Failed
		if r.Reason == "" {
			r.Reason = old.Reason
		}
		joined[k] = r
	}
	var list []Record
	for _, r := range joined {
		if r.Compared > 0 || r.Failed {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int {
		return cmp.Or(strings.Compare(a.Family, b.Family), strings.Compare(a.Name, b.Name))
	})
	return list
}
