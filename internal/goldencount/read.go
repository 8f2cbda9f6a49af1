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

// Read joins the records of a case, in the order of family and name. A case without comparisons is
// none.
func Read(in io.Reader) ([]Record, error) {
	type key struct{ family, name string }
	joined := map[key]Record{}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
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
	if err := lines.Err(); err != nil {
		return nil, err
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
	return list, nil
}
