// Package maskedlm is the task of predicting masked tokens. A [Sample] is a text as token ids. Each
// time [Task] sees a sample, it masks a new random choice of its tokens, like transformers'
// DataCollatorForLanguageModeling, and computes the loss of the masked ones.
//
// Package auto makes the model and the task:
//
//	mlm, err := auto.MaskedLM(ctx, "distilbert/distilbert-base-uncased", auto.Options{})
//	step, err := engine.New(mlm.Task(), engine.Options{})
//
// # Random numbers
//
// Masks are drawn when the model runs, not when batches are collated, with torch's operators, in
// transformers' order and number. So they do not depend on the number of loading goroutines, a
// checkpoint holds the generator's state, and a resumed run draws what the uninterrupted run would
// have drawn.
//
// With [Masking].Seed, a separate generator gives the same masks, batch by batch, as the collator
// in Python. Without it, masks come from torch's default generator, which dropout also uses. There,
// transformers masks one batch ahead of the one that is trained on, so the numbers differ.
package maskedlm
