// Package hezar is the Trainer of Hezar, the framework for Persian, in Go: its configuration, its loop, its folders and files.
package hezar
