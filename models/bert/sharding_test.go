package bert_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
)

func TestLayersAreUnits(t *testing.T) {
	modeltest.LayersAreUnits(t, 2, func() (inputs.Model, error) { return bert.NewClassifier(tiny()) })
}
