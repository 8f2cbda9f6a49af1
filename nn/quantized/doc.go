// Package quantized holds the weights of linear layers in four bits, as bitsandbytes does: a quarter of
// the memory that they take in bfloat16. They are not trained; what is trained is an adapter beside them
// (package models/lora), which together is QLoRA. Biases, and all other layers, stay as they are.
//
// Each block of 64 numbers is divided by the largest size in it, and each quotient becomes the nearest of
// 16 numbers. A product makes the weight anew, in the dtype that it is computed in, and forgets it: a
// backward pass does it once more, so that the weights of one layer are there at a time.
//
// Source: Dettmers and others, QLoRA: Efficient Finetuning of Quantized LLMs,
// https://arxiv.org/abs/2305.14314; bitsandbytes 0.50, whose bits and names in files these are.
package quantized
