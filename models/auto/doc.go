// Package auto loads a model for a task, with any encoder or decoder, its tokenizer and its labels:
// AutoModelForSequenceClassification, AutoModelForTokenClassification,
// AutoModelForQuestionAnswering, AutoModelForMaskedLM, AutoModelForCausalLM and
// AutoModelForSeq2SeqLM of transformers 5.17, tensor by tensor and bit by bit.
//
//	ner, err := auto.TokenClassification(ctx, "dslim/bert-base-NER", auto.Options{}) // a folder or a name on the Hub
//	step, err := engine.New(ner.Task(), engine.Options{})
//	train := data.Map(sentences, func(s Sentence) (tokenclass.Sample, error) { return ner.Encode(s.Words, s.Tags) })
//
// The model_type of config.json says which encoder it is: bert, roberta, xlm-roberta, distilbert,
// electra, mpnet, modernbert or deberta-v2. [CausalLM] takes decoders: gpt2, llama, mistral, qwen2,
// qwen3, phi3, gemma, gemma2, gemma3_text, smollm3, olmo2 and granite; [Seq2SeqLM] takes t5.
// Settings that would change the results but are not supported are refused by name. A missing part
// of the encoder is an error. A head that the files do not have is drawn as transformers draws it;
// standard error reports what was drawn or not used. A model loaded from files is in evaluation
// mode, as after from_pretrained; to train it call nn.SetTraining, as every trainer of this module
// does. One from FromConfig is in training mode.
//
// transformers loads what Save writes, and every checkpoint of a run: config.json with the class
// and the labels, the weights, the tokenizer's files and the chat template.
//
// The tasks are those of packages classify, tokenclass, question, maskedlm, causallm and seq2seq.
// Their NewTask takes a model of this package and has more options.
package auto
