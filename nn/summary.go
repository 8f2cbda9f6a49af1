package nn

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/gotrainer/gotrainer/torch"
)

// Summary returns a table of the parameters and buffers of a module: names, modules, shapes,
// dtypes, counts, megabytes, and the totals.
func Summary(m any) string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tmodule\tshape\tdtype\tcount\tMB")
	seen := map[torch.Tensor]bool{}
	var trained, frozen, buffered, bytes int64
	each(m, func(n node) {
		row := func(t torch.Named, total *int64, note string) {
			if seen[t.Tensor] {
				return
			}
			seen[t.Tensor] = true
			count := t.Tensor.Numel()
			size := count * t.Tensor.DType().Size()
			*total += count
			bytes += size
			fmt.Fprintf(w, "%s%s\t%s\t%v\t%s\t%d\t%s\n", t.Name, note, typeName(n.module), t.Tensor.Shape(),
				t.Tensor.DType(), count, megabytes(size))
		}
		for _, p := range n.params() {
			if p.Tensor.NeedsGrad() {
				row(p, &trained, "")
			} else {
				row(p, &frozen, " (frozen)")
			}
		}
		for _, b := range n.buffers() {
			row(b.Named, &buffered, " (buffer)")
		}
	})
	w.Flush() //nolint:errcheck // a strings.Builder does not fail
	fmt.Fprintf(&s, "%d parameters, %d of them trained; %d numbers in buffers; %s MB\n", trained+frozen, trained,
		buffered, megabytes(bytes))
	return s.String()
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.3f", float64(bytes)/1e6) }
