// Package warnings holds no code: its test provokes what would be silent otherwise, and compares
// what is said with docs/warnings.md.
package warnings
