// Package detecttest has the tests of models that find objects, against transformers.
package detecttest
