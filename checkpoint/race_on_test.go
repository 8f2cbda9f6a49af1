//go:build race

package checkpoint

// stride thins out the system calls that are tried: processes with the race detector start slowly.
// Without it all are tried.
const stride = 7
