// Package quantized stores the weights of linear layers in four bits, as bitsandbytes does: a
// quarter of the memory that they take in bfloat16. They are not trained; instead, an adapter
// (package models/lora) is trained on top of them, which is QLoRA. Biases and all other layers stay
// as they are.
//
// Each block of 64 numbers is divided by the largest absolute value in it, and each quotient is
// rounded to the nearest of 16 numbers. To compute a product, the weight is unpacked in the dtype
// of the product and then freed. The backward pass unpacks it again, so that the unpacked weights
// of only one layer exist at a time.
//
// Source: Dettmers and others, QLoRA: Efficient Finetuning of Quantized LLMs,
// https://arxiv.org/abs/2305.14314; bitsandbytes 0.50, which has the same bits, and the same names
// in files.
package quantized
