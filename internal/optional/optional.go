// Package optional provides defaults for settings that are pointers because zero is a valid value.
// For all others there is cmp.Or.
package optional

// Or returns what a setting points to, or the default if it is nil.
func Or[T any](setting *T, standard T) T {
	if setting == nil {
		return standard
	}
	return *setting
}
