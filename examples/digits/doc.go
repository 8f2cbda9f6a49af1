// Command digits teaches a small network to read handwritten digits, as the README shows. It keeps
// its checkpoints in runs/digits: started again, it continues where it was stopped. -device auto
// takes the GPU if there is one.
package main
