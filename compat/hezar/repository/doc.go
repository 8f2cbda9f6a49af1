// Package repository loads, runs and saves Hezar's models, in folders and on the Hub:
// model.pt, model_config.yaml and preprocessor/. What Python's Model.save wrote loads here, what is
// saved here Model.load reads, and both give the same outputs; scripts/hezar_interop.py proves it.
//
//	model, err := repository.Load("crnn-fa-printed-96-long")
//	predictions, err := model.Predict(ctx, "line.png")
//	fmt.Println(predictions[0].Text, predictions[0].Score)
//
// There are CRNNImage2Text; BERT, RoBERTa and DistilBERT that classify texts or label sequences; and
// T5 and GPT-2 that write texts. Package compat/hezar trains them.
package repository
