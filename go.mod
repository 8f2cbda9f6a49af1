module github.com/gotrainer/gotrainer

go 1.26.0

require (
	github.com/gofrs/flock v0.13.1
	golang.org/x/sys v0.49.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
