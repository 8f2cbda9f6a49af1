package trainertest

import (
	"reflect"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
)

// TestCallback checks that a trainer calls every method of a callback that has the name of an event
// of [trainer.Hooks]. A method with another signature, such as one that returns no error, compiles
// but is never called. [trainer.New] does not check this, since the necessary reflection would make
// every program a fifth larger. Run TestCallback for every callback that you write.
func TestCallback(t testing.TB, callback any) {
	t.Helper()
	if callback == nil {
		t.Error("trainertest: the callback is nil")
		return
	}
	have, events := reflect.TypeOf(callback), reflect.TypeFor[trainer.Hooks]()
	if have.Kind() != reflect.Pointer && have.Kind() != reflect.Interface {
		have = reflect.PointerTo(have) // the pointer's method set includes that of the value
	}
	known := 0
	for i := range events.NumMethod() {
		event := events.Method(i)
		method, ok := have.MethodByName(event.Name)
		if !ok {
			continue
		}
		known++
		if is := withoutReceiver(method.Type); is != event.Type {
			t.Errorf("trainertest: %v has the method %s as %v, which is never called; want %v", have, event.Name, is, event.Type)
		}
	}
	if known == 0 {
		t.Errorf("trainertest: %v has no method of trainer.Hooks, such as StepEnd(*trainer.Run) error", have)
	}
}

// withoutReceiver returns the type of a method as an interface has it.
func withoutReceiver(method reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < method.NumIn(); i++ {
		in = append(in, method.In(i))
	}
	for o := range method.Outs() {
		out = append(out, o)
	}
	return reflect.FuncOf(in, out, method.IsVariadic())
}
