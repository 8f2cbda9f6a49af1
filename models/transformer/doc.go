// Package transformer holds what encoders such as BERT, RoBERTa and DistilBERT share: attention,
// its masks, activations by name, the layer that BERT and RoBERTa are built from, and the way
// transformers draws initial weights. Everything calls libtorch as transformers 5.17 does, in the
// same order, so that the same seed and weights give the same bits on the same CPU.
//
//	mask := transformer.Mask{Padding: transformer.PaddingMask(attentionMask, x.DType(), transformer.SDPA)}
//	for _, layer := range layers {
//		x = layer.Forward(x, mask)
//	}
//
// A [Blueprint] is an encoder to which package auto adds a head. The models themselves are in
// packages bert, roberta, distilbert, electra, mpnet, modernbert and deberta.
package transformer
