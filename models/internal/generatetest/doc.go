// Package generatetest has the tests of how language models write: auto.Generation.
package generatetest
