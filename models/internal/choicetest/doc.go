// Package choicetest has the tests of encoders that choose among several texts: auto.MultipleChoice.
package choicetest
