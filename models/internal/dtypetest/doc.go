// Package dtypetest has the tests of models whose weights are not in float32: auto.Options.DType.
package dtypetest
