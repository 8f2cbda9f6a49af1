// Package generationtest tests Hezar's models that generate texts, comparing with results of Hezar.
package generationtest
