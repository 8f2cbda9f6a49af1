// Package generatetest tests text generation with language models: auto.Generation.
package generatetest
