// Package trace holds what a training run did, in the form in which Python trainers were recorded,
// and compares two of them.
//
//	stored, err := trace.Read("cases/hf/defaults/trace.json")
//	report := trace.Compare(stored, got, 1e-4)
//	fmt.Println(report.Sum().Verdict)
//
// # The form
//
// trace.json is one object. Numbers that matter are strings in the form of Python's float.hex,
// "0x1.8000000000000p+0"; other floats are JSON numbers in the shortest form that reads back the
// same, so both can be judged to the last bit. JSON has no nan and no infinities: they are the
// strings "nan", "inf" and "-inf". final.safetensors, beside it, holds the weights, buffers and
// optimizer states of the end.
//
// # The judgement
//
// Everything that is an integer, a string or a boolean must be equal, and lists must have equal
// lengths. Learning rates, weight decay and epochs may differ by 1e-12 relative, other floats by
// the case's tolerance. Hashes of weights only decide between bitwise and within tolerance. The
// rules are those of the recordings' own compare.py, and a test holds the two against each other.
package trace
