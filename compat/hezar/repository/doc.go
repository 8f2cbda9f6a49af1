// Package repository loads, runs and saves Hezar's models, in folders and on the Hub: model.pt,
// model_config.yaml and preprocessor/. What Python's Model.save wrote loads here, Model.load reads
// what is saved here, and both give the same outputs; scripts/hezar_interop.py checks it.
//
//	model, err := repository.Load("crnn-fa-printed-96-long")
//	predictions, err := model.Predict(ctx, "line.png")
//	fmt.Println(predictions[0].Text, predictions[0].Score)
//
// The models are CRNNImage2Text; BERT, RoBERTa and DistilBERT, which classify texts or label
// sequences; and T5 and GPT-2, which generate text. Package compat/hezar trains them.
package repository
