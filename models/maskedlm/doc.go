// Package maskedlm is the task of guessing words that are masked. A [Sample] is a text as token
// ids; [Task] masks some of them each time that it sees them, another choice every time, as
// transformers' DataCollatorForLanguageModeling does, and computes the loss of the masked ones.
//
// Package auto makes the model and the task:
//
//	mlm, err := auto.MaskedLM(ctx, "distilbert/distilbert-base-uncased", auto.Options{})
//	step, err := engine.New(mlm.Task(), engine.Options{})
//
// # Random numbers
//
// Masks are drawn with torch's operators, in transformers' order and number, where the model runs
// and not where batches are collated: so they do not depend on the number of loading goroutines, a
// checkpoint holds the generator's state, and a run that continues draws what it would have drawn.
// With [Masking].Seed a separate generator gives the masks that the collator gives Python,
// batch by batch. Without, they come from torch's default generator, which dropout uses, too; there
// transformers masks one batch ahead of the one that is trained on, and the numbers differ.
package maskedlm
