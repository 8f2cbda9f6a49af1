package kto

// Compact has a task score the tokens of completions alone, as on a GPU.
func Compact(t *Task) { t.compact = true }
