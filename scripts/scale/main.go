// Command scale prints the tables of docs/scale.md: what training on 8 to 1,024 GPUs would cost by
// a model on paper, whose assumptions stand in model.go. Nothing of it is measured.
//
//	go run ./scripts/scale
package main

import "fmt"

func main() { fmt.Print(report(h200, llama3)) }
