package pretrained

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
)

// Report says what happened to every tensor of a model and of its files. Its String is a table of
// all but the loaded ones.
type Report struct {
	nn.Report

	// Renamed has the old names of tensors that were loaded under new ones, such as
	// bert.embeddings.LayerNorm.gamma or a name without prefix.
	Renamed map[string]string
	// Initialized are the model's tensors that were drawn at random because they were missing or
	// had another shape.
	Initialized []string
}

// String returns a table of the tensors that were not simply loaded.
func (r *Report) String() string {
	var s strings.Builder
	s.WriteString(r.Report.String())
	if n := len(r.Renamed); n > 0 {
		fmt.Fprintf(&s, "%d tensors were loaded under new names\n", n)
	}
	if len(r.Initialized) > 0 {
		fmt.Fprintf(&s, "newly initialized, to be trained: %s\n", strings.Join(r.Initialized, ", "))
	}
	return s.String()
}
