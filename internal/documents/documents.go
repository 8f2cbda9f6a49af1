// Package documents holds no code: its test keeps docs/documents.md true.
package documents
