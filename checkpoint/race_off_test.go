//go:build !race

package checkpoint

const stride = 1
