// Package scoretest has the tests of decoders that classify texts: auto.SequenceClassification.
package scoretest
