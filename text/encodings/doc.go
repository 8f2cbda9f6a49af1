// Package encodings has what a tokenizer makes of a text, an [Encoding], and what is done to it
// afterwards: truncation and padding.
//
// Programs meet these types under the names that package text gives them.
package encodings
