// Package maskedlm is the task of predicting masked tokens. A [Sample] is a text as token ids. Each
// time [Task] sees it, it masks a new random choice of them, as transformers'
// DataCollatorForLanguageModeling does, and computes the loss of the masked ones.
//
// Package auto makes the model and the task:
//
//	mlm, err := auto.MaskedLM(ctx, "distilbert/distilbert-base-uncased", auto.Options{})
//	step, err := engine.New(mlm.Task(), engine.Options{})
//
// # Random numbers
//
// Masks are drawn with torch's operators, in transformers' order and number, when the model runs
// and not when batches are collated. So they do not depend on the number of loading goroutines, a
// checkpoint holds the generator's state, and a run that continues draws what it would have drawn.
// With [Masking].Seed a separate generator gives the same masks, batch by batch, as the collator in
// Python. Without it they come from torch's default generator, which dropout also uses.
// transformers then masks one batch ahead of the one that is trained on, so the numbers differ.
package maskedlm
