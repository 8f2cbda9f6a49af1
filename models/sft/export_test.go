package sft

// SetCompact makes a task score only the tokens that are learned, as on a GPU.
func SetCompact(t *Task, compact bool) { t.compact = compact }
