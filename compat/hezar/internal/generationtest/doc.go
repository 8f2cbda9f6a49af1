// Package generationtest has the tests of Hezar's models that write texts, beside what Hezar made of
// them.
package generationtest
