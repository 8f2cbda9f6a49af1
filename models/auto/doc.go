// Package auto loads a model for a task, with any encoder or decoder, its tokenizer, image processor
// or feature extractor, and its labels. It is these classes of transformers 5.17, tensor by tensor
// and bit by bit: AutoModelForSequenceClassification, AutoModelForTokenClassification,
// AutoModelForQuestionAnswering, AutoModelForMultipleChoice, AutoModelForMaskedLM,
// AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForImageClassification,
// AutoModelForSemanticSegmentation, AutoModelForObjectDetection,
// AutoModelForZeroShotImageClassification, AutoModelForSpeechSeq2Seq, AutoModelForCTC,
// AutoModelForAudioClassification and, for LLaVA and TrOCR, AutoModelForImageTextToText.
//
//	ner, err := auto.TokenClassification(ctx, "dslim/bert-base-NER", auto.Options{}) // a folder or a name on the Hub
//	step, err := engine.New(ner.Task(), engine.Options{})
//	train := data.Map(sentences, func(s Sentence) (tokenclass.Sample, error) { return ner.Encode(s.Words, s.Tags) })
//
// The model_type of config.json selects the architecture:
//
//   - encoders: bert, roberta, xlm-roberta, distilbert, electra, mpnet, modernbert and deberta-v2;
//   - decoders ([CausalLM], [SequenceClassification], [RewardModel]): gpt2, llama, mistral, qwen2,
//     qwen3, phi3, gemma, gemma2, gemma3_text, smollm3, olmo2, mixtral, qwen2_moe, qwen3_moe and,
//     only as a language model, granite;
//   - text to text ([Seq2SeqLM]): t5, mt5, bart, mbart and marian;
//   - images ([ImageClassification]): vit, deit, dinov2, dinov2_with_registers, resnet, convnext,
//     convnextv2, swin, clip, siglip and segformer;
//   - pixels of images ([SemanticSegmentation]): segformer;
//   - objects in images ([ObjectDetection]): yolos and detr;
//   - images and texts ([ZeroShotImageClassification]): clip and siglip;
//   - text in images ([ImageToText]): vision-encoder-decoder of a vit or deit and a trocr;
//   - answers to texts with images ([ImageTextToText]): llava of a clip_vision_model and a llama,
//     mistral, qwen2, qwen3, phi3, smollm3 or olmo2;
//   - speech ([SpeechToText]): whisper;
//   - sound ([CTC], [AudioClassification]): wav2vec2 and hubert.
//
// An unsupported setting that would change the results is refused by name. A missing part of the
// encoder is an error. A head that the files do not have is drawn as transformers draws it.
// Standard error reports what was drawn or not used.
//
// A model loaded from files is in evaluation mode, as after from_pretrained. To train it, call
// nn.SetTraining, as every trainer of this module does. A model made by FromConfig is in training
// mode.
//
// transformers loads what Save writes, and every checkpoint of a run: config.json with the class
// and the labels, the weights, and the files of the tokenizer, chat template, image processor
// and feature extractor.
//
// [Encoder] is AutoModel, an encoder or decoder without a head; package sentence uses it to make
// embeddings of texts. [CrossEncoder] loads the classifiers of package crossencoder, which scores
// pairs of texts; it takes a [CausalLanguageModel], too.
//
// The tasks are those of packages classify, tokenclass, segment, question, maskedlm, causallm,
// seq2seq, ctc, dpo, reward and contrastive. Their NewTask takes a model of this package and has
// more options.
package auto
