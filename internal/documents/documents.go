// Package documents contains no code: its test checks docs/documents.md.
package documents
