package transformer

// PackedKernels are the kernels of a GPU, which a CPU can ask for in vain.
var PackedKernels = map[string]packedAttention{"flash": flash, "efficient": efficient}
