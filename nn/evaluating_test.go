package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
)

func TestEvaluatingLeavesEachModuleInItsMode(t *testing.T) {
	testenv.RequireTorch(t)
	training, frozen := nn.NewDropout(0.5), nn.NewDropout(0.5)
	frozen.SetTraining(false)
	model := nn.Sequential{training, nn.Sequential{frozen}}
	assert.Panics(t, func() {
		nn.Evaluating(model, func() {
			assert.False(t, training.Training())
			assert.False(t, frozen.Training())
			panic("as it may")
		})
	})
	assert.True(t, training.Training())
	assert.False(t, frozen.Training())
}

// TestTheLastCallOfEvaluatingToEndGivesBackTraining makes two concurrent calls for models that
// share a module.
func TestTheLastCallOfEvaluatingToEndGivesBackTraining(t *testing.T) {
	testenv.RequireTorch(t)
	first, shared, second := nn.NewDropout(0.5), nn.NewDropout(0.5), nn.NewDropout(0.5)
	inside, leave, left := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		nn.Evaluating(nn.Sequential{first, shared}, func() {
			inside <- true
			<-leave
		})
		left <- true
	}()
	<-inside
	nn.Evaluating(nn.Sequential{shared, second}, func() {
		leave <- true
		<-left
		assert.True(t, first.Training())
		assert.False(t, shared.Training())
		assert.False(t, second.Training())
	})
	for _, m := range []*nn.Dropout{first, shared, second} {
		assert.True(t, m.Training())
	}
}
