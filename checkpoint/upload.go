package checkpoint

// Upload describes the upload of one folder to a place where models are kept, such as the Hugging
// Face Hub. The trainer says what is uploaded and when; package hub, or a type of your own, uploads
// it.
type Upload struct {
	Folder string // the local checkpoint
	// Path is the folder in the repository, which will hold these files and no others. Empty means
	// the root, where other files are left alone.
	Path      string
	ModelOnly bool   // leave out what only a resumed run needs: optimizer, generators, states of the trainer
	Message   string // message of the commit: "Training in progress, step 500"
}

// UploadRun describes the run whose checkpoints will be uploaded. An uploader receives it before
// the first update.
type UploadRun struct {
	OutputDir       string // of the run
	Hyperparameters []Hyperparameter
}

// Hyperparameter is a setting of a run for a model card, under its name in Python.
type Hyperparameter struct {
	Name  string
	Value any // a number or a string
}
