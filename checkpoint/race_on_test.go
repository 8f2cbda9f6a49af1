//go:build race

package checkpoint

// stride is the distance between the system calls that are tried: processes with the race detector
// start slowly. Without it, all calls are tried.
const stride = 7
