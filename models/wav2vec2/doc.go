// Package wav2vec2 has Wav2Vec2 (Baevski et al., 2020) and HuBERT (Hsu et al., 2021), which hear
// speech: transformers' Wav2Vec2ForCTC, Wav2Vec2ForSequenceClassification, HubertForCTC and
// HubertForSequenceClassification, tensor by tensor and bit by bit. Package auto loads, trains and
// saves them:
//
//	m, err := auto.CTC(ctx, "facebook/wav2vec2-base-960h", auto.Options{})                     // writes down speech
//	m, err := auto.AudioClassification(ctx, "superb/wav2vec2-base-superb-ks", auto.Options{})  // classifies sound
//
// Their tasks are in packages ctc and classify. Weights have the names that they have in files.
package wav2vec2
