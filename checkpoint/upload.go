package checkpoint

// Upload is one folder on its way to where models are kept, such as the Hugging Face Hub. The
// trainer says what is uploaded and when; package hub, or a type of yours, uploads it.
type Upload struct {
	Folder string // the checkpoint here
	// the folder in the repository, which is to hold these files and no others; empty: its root,
	// where other files stay
	Path      string
	ModelOnly bool   // leave out what only a resumed run needs: optimizer, generators, states of the trainer
	Message   string // of the commit: "Training in progress, step 500"
}

// UploadRun is the run whose checkpoints are going to be uploaded: what an uploader is told before
// the first update.
type UploadRun struct {
	OutputDir       string // of the run
	Hyperparameters []Hyperparameter
}

// Hyperparameter is a setting of a run for a model card, under the name that it has in Python.
type Hyperparameter struct {
	Name  string
	Value any // a number or a text
}
