// Package repository reads and writes the folders of Hezar's models: model.pt, model_config.yaml
// and preprocessor/. What Python's Model.save wrote loads here, what is saved here Model.load
// reads, and both give the same outputs; scripts/hezar_interop.py proves it.
//
//	reader, err := repository.LoadImage2Text("crnn-fa-printed-96-long")
//	readings, err := reader.Predict("line.png")
//	fmt.Println(readings[0].Text, readings[0].Score)
//
// A model is an ordinary one of this module, so it is trained like any other; Save makes it Hezar's
// again.
package repository
