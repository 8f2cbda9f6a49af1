// Package encodings has the result of a tokenizer, an [Encoding], and what is done to it
// afterwards: truncation and padding.
//
// Programs use these types under the names that package text gives them.
package encodings
