package pretrained

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
)

// Report says what became of every tensor of a model and of its files. Its String is a table of all
// but the loaded ones.
type Report struct {
	nn.Report

	// Renamed has the old names, such as bert.embeddings.LayerNorm.gamma or one without prefix, of
	// tensors that were loaded under new ones.
	Renamed map[string]string
	// Initialized are the model's tensors that were drawn at random: tensors that were missing or
	// of another shape.
	Initialized []string
}

// String is a table of what was not simply loaded.
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
