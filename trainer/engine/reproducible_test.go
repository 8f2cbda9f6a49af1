package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestReproducibleHoldsWhereTheProcessWasBegunForIt(t *testing.T) {
	s := newStep(t, engine.Options{})
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	if build.Reproducible == 0 {
		t.Skip("this CPU has no AVX2")
	}
	_, err = trainer.New(s, quiet(trainer.Options{Reproducible: build.Reproducible}))
	require.NoError(t, err)
	_, err = trainer.New(s, quiet(trainer.Options{Reproducible: build.Reproducible + 1}))
	assert.ErrorContains(t, err, "the threads that the process was started with")
}
