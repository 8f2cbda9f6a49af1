// Command digits teaches a small network to read handwritten digits, as the README shows. It keeps
// its checkpoints in runs/digits: started again, it continues where it stopped. -device auto uses
// the GPU if there is one.
package main
