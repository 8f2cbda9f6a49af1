// Package processors has the post-processors of Hugging Face tokenizers: what puts special tokens
// around the tokens of one text or two.
//
//	p := processors.BertProcessing{
//		Sep: processors.SpecialToken{"[SEP]", 102}, Cls: processors.SpecialToken{"[CLS]", 101},
//	}
//	e, err := processors.Process(p, first, second, true) // [CLS] first [SEP] second [SEP]
//
// [Parse] reads the field "post_processor" of tokenizer.json; the types write themselves back with
// encoding/json.
package processors
