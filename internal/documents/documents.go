// Package documents contains no code. Its tests check the pages: that what docs/documents.md names
// is there, that the Go names on every page exist, and the line counts of docs/listings.md.
package documents
