package nn

import "sync"

// switchable is a module that can be switched between training and evaluation mode, such as one
// that embeds [Mode].
type switchable interface {
	Training() bool
	SetTraining(on bool)
}

// evaluating counts, for each module, how many calls of [Evaluating] are holding it in evaluation
// mode, so that of several concurrent calls the last one to end restores training mode. A module
// that was already in evaluation mode is not counted.
var evaluating = struct {
	sync.Mutex
	calls map[identity]int
}{calls: map[identity]int{}}

// held is a module whose training mode a call has to restore.
type held struct {
	id     identity
	module switchable
}

// Evaluating runs f with m and all modules in it in evaluation mode, and then restores the mode of
// each, to use a model in the middle of training. Several goroutines may do so at once, even on
// models that share modules: the last one to finish restores training mode. Meanwhile the model
// must not be trained, nor [SetTraining] be called on it.
func Evaluating(m any, f func()) {
	modules := hold(m)
	defer release(modules)
	f()
}

// hold switches the modules in m to evaluation mode. It returns those that were in training mode or
// are held by another call.
func hold(m any) (modules []held) {
	var all []held
	each(m, func(n node) {
		if s, ok := n.module.(switchable); ok {
			all = append(all, held{n.id, s})
		}
	})
	evaluating.Lock()
	defer evaluating.Unlock()
	for _, h := range all {
		training := h.module.Training()
		if !training && evaluating.calls[h.id] == 0 {
			continue
		}
		if training {
			h.module.SetTraining(false)
		}
		evaluating.calls[h.id]++
		modules = append(modules, h)
	}
	return modules
}

// release restores training mode for the modules that no other call holds.
func release(modules []held) {
	evaluating.Lock()
	defer evaluating.Unlock()
	for _, h := range modules {
		if evaluating.calls[h.id]--; evaluating.calls[h.id] > 0 {
			continue
		}
		delete(evaluating.calls, h.id)
		h.module.SetTraining(true)
	}
}
