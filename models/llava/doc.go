// Package llava has LLaVA (Liu et al., 2023), a language model whose texts have images:
// transformers' LlavaForConditionalGeneration, tensor by tensor and bit by bit. Its parts are a
// CLIP vision tower, which sees the images, a projector of two layers, and a decoder of package
// llama: llama, mistral, qwen2, qwen3, phi3, smollm3 or olmo2. Package auto loads, trains and saves
// it:
//
//	m, err := auto.ImageTextToText(ctx, "llava-hf/llava-1.5-7b-hf", auto.Options{}) // of files
//	m, err := auto.NewImageTextToText(llava.Config{...}, processor, tokenizer)       // of random weights
//	err = m.FreezeVisionTower()                                                     // as is usual
//	train := data.Map(rows, func(r Row) (causallm.ImageSample, error) { return m.EncodeChat(r.Chat, r.Image) })
//	step, err := engine.New(m.Task(), engine.Options{})
//	answer, err := m.Chat(ctx, conversation, auto.Generation{MaxNewTokens: 100}, image)
//
// Its tasks are causallm.ImageTask, which is Trainer's, and sft.ImageTask, which is that of TRL's
// SFTTrainer. [Processor] says how many tokens an image becomes in a text. Weights have the names
// that they have in files.
package llava
