package pytorchaccelerated

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A callback method with a misspelt event name would never be called.
func TestEveryEventOfACallbackIsAHook(t *testing.T) {
	callbacks := append(DefaultCallbacks(), &SaveBestModel{}, &EarlyStopping{}, &LimitBatches{}, &ModelEMA{},
		&ConvertSyncBatchNorm{}, &StepBasedEvaluation{}, &LimitEvalSteps{}, &SaveTrainingState{}, &WSDCheckpoint{},
		&ClassificationMetrics{})
	names := map[string]reflect.Type{"MarshalState": reflect.TypeFor[StateSaver](),
		"UnmarshalState": reflect.TypeFor[StateSaver]()}
	for _, h := range hookTypes {
		names[h.Method(0).Name] = h
	}
	for _, c := range callbacks {
		of := reflect.TypeOf(c)
		for method := range of.Methods() {
			hook, ok := names[method.Name]
			if strings.HasPrefix(method.Name, "On") {
				assert.True(t, ok, "%s.%s is no event", of, method.Name)
			}
			assert.True(t, !ok || of.Implements(hook), "%s.%s is no method of %s", of, method.Name, hook)
		}
	}
}

func TestEveryMethodHasItsOwn(t *testing.T) {
	for field, f := range reflect.ValueOf(Methods[Sample, Batch]{}.withDefaults()).Fields() {
		assert.False(t, f.IsNil(), "the Trainer has no method %s", field.Name)
	}
}
