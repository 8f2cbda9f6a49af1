// Package moetest has the tests of the mixtures of experts of package llama, whose golden files were
// made on another CPU than the others of that package.
package moetest
