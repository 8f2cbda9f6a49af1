// Package optional gives settings that are pointers their defaults: those for which zero is a value
// of its own. For all others there is cmp.Or.
package optional

// Or is what a setting points to, or the default where it points nowhere.
func Or[T any](setting *T, standard T) T {
	if setting == nil {
		return standard
	}
	return *setting
}
