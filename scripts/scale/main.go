// Command scale prints the tables of docs/scale.md: the estimated cost of training on 8 to 1,024
// GPUs, by an analytical model whose assumptions are in model.go. None of it is measured.
//
//	go run ./scripts/scale
package main

import "fmt"

func main() { fmt.Print(report(h200, llama3)) }
