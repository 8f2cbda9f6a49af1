package trainer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// reproducer is a step in a process that was started with reproducible numbers and two threads.
type reproducer struct{ trainertest.Step }

func (r *reproducer) About() trainer.About {
	about := r.Step.About()
	about.Reproducible = 2
	return about
}

func TestReproducibleIsAskedOfTheStep(t *testing.T) {
	_, err := trainer.New(new(reproducer), trainer.Options{Reproducible: 2})
	require.NoError(t, err)
	_, err = trainer.New(new(reproducer), trainer.Options{Reproducible: 1})
	assert.ErrorContains(t, err, "want 2, the threads that the process was started with")
	_, err = trainer.New(new(trainertest.Step), trainer.Options{Reproducible: 1})
	assert.ErrorContains(t, err, "GOTRAINER_REPRODUCIBLE")
	var wrong *trainer.OptionError
	_, err = trainer.New(new(reproducer), trainer.Options{Reproducible: -1})
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "Reproducible", wrong.Field)
}
