package transformer

// PackedKernels are the kernels of a GPU. On a CPU, calling them is an error.
var PackedKernels = map[string]packedAttention{"flash": flash, "efficient": efficient}
