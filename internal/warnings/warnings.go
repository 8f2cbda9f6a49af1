// Package warnings contains no code: its test provokes situations that would otherwise be silent,
// and compares the messages with docs/warnings.md.
package warnings
