package trainer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// reproducer is a step of a process that was begun with reproducible numbers of two threads.
type reproducer struct{ trainertest.Step }

func (*reproducer) Reproducible(threads int) error {
	if threads != 2 {
		return errors.New("libtorch is loaded already")
	}
	return nil
}

func TestReproducibleIsAskedOfTheStep(t *testing.T) {
	_, err := trainer.New(new(reproducer), trainer.Options{Reproducible: 2})
	require.NoError(t, err)
	_, err = trainer.New(new(reproducer), trainer.Options{Reproducible: 1})
	assert.EqualError(t, err, "trainer: Options.Reproducible is 1: libtorch is loaded already")
	_, err = trainer.New(new(trainertest.Step), trainer.Options{Reproducible: 1})
	assert.ErrorContains(t, err, "*trainertest.Step does not implement trainer.Reproducer")
	var wrong *trainer.OptionError
	_, err = trainer.New(new(reproducer), trainer.Options{Reproducible: -1})
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "Reproducible", wrong.Field)
}
