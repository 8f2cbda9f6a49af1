package nn

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Report says which tensors a load filled, or would have filled. Its String is a table of the
// others.
type Report struct {
	Loaded     []string     // by the module's names
	Missing    []TensorInfo // in the module, not in the source
	Unexpected []TensorInfo // in the source, not in the module, by the source's names
	Mismatched []Mismatch   // in both, in different shapes
}

// Mismatch is a tensor whose shape differs between the module and the source.
type Mismatch struct {
	Name        string
	Want, Found []int64 // the module's shape and the source's
}

// LoadError is the error of a load that was refused because source and module do not match.
// Nothing was loaded.
type LoadError struct{ Report *Report }

func (e *LoadError) Error() string {
	r := e.Report
	return fmt.Sprintf("nn: the tensors do not fit the module, nothing was loaded: %d missing, %d unexpected, %d of "+
		"another shape\n%s%s",
		len(r.Missing), len(r.Unexpected), len(r.Mismatched), r, r.hint())
}

// reject returns an error unless the options tolerate the differences.
func (r *Report) reject(o LoadOptions) error {
	if len(r.Missing) > 0 && !o.IgnoreMissing || len(r.Unexpected) > 0 && !o.IgnoreUnexpected ||
		len(r.Mismatched) > 0 && !o.IgnoreMismatched {
		return &LoadError{r}
	}
	return nil
}

// maxRows is how many tensors a table shows at most; if the file is the wrong one, thousands may
// differ.
const maxRows = 20

// String returns the number of tensors loaded and a list of at most 20 tensors that were not.
func (r *Report) String() string {
	var rows []string
	for _, t := range r.Missing {
		rows = append(rows, fmt.Sprintf("  missing\t%s\twant %v", t.Name, t.Shape))
	}
	for _, m := range r.Mismatched {
		rows = append(rows, fmt.Sprintf("  mismatched\t%s\twant %v, found %v", m.Name, m.Want, m.Found))
	}
	for _, t := range r.Unexpected {
		rows = append(rows, fmt.Sprintf("  unexpected\t%s\tfound %v", t.Name, t.Shape))
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d tensors fit\n", len(r.Loaded))
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		if i == maxRows {
			fmt.Fprintf(w, "  and %d more\n", len(rows)-maxRows)
			break
		}
		fmt.Fprintln(w, row)
	}
	w.Flush() //nolint:errcheck // a strings.Builder does not fail
	return s.String()
}

// hint recognises the most common cause: the names on one side have a prefix that the other side
// lacks.
func (r *Report) hint() string {
	if len(r.Missing) == 0 || len(r.Unexpected) == 0 {
		return ""
	}
	if p := extraPrefix(r.Unexpected, r.Missing); p != "" {
		return fmt.Sprintf("the source's names begin with %q: LoadOptions.Rename can cut it off", p)
	}
	if p := extraPrefix(r.Missing, r.Unexpected); p != "" {
		return fmt.Sprintf("the source's names lack %q: LoadOptions.Rename can add it", p)
	}
	return ""
}

// extraPrefix returns the first component of the names in long if removing it gives names in short.
func extraPrefix(long, short []TensorInfo) string {
	rest := map[string]bool{}
	for _, t := range short {
		rest[t.Name] = true
	}
	for _, t := range long {
		if head, tail, ok := strings.Cut(t.Name, "."); ok && rest[tail] {
			return head + "."
		}
	}
	return ""
}
