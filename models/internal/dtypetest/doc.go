// Package dtypetest tests models in other dtypes than float32: auto.Options.DType.
package dtypetest
