// Package trace represents what a training run did, in the format in which Python trainers were
// recorded, and compares two such traces.
//
//	stored, err := trace.Read("cases/hf/defaults/trace.json")
//	report := trace.Compare(stored, got, 1e-4)
//	fmt.Println(report.Sum().Verdict)
//
// # The format
//
// trace.json is one object. Numbers that matter are strings in the format of Python's float.hex,
// "0x1.8000000000000p+0"; other floats are JSON numbers in the shortest form that parses back to
// the same value, so both can be compared to the last bit. JSON has no nan and no infinities: they
// are the strings "nan", "inf" and "-inf". final.safetensors, next to it, holds the final weights,
// buffers and optimizer states.
//
// # The comparison
//
// Integers, strings and booleans must be equal, and lists must have equal lengths. Learning rates,
// weight decay and epochs may differ by 1e-12, relatively, other floats by the tolerance of the
// case. Hashes of weights only decide between bitwise and within tolerance. The rules are those of
// the recordings' own compare.py; a test checks that both agree.
package trace
