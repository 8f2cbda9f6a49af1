// Package pickle reads the tensors of files that torch.save wrote, such as pytorch_model.bin,
// without running what is in them, and writes such files.
//
//	f, err := pickle.Open("pytorch_model.bin")
//	defer f.Close()
//	for _, t := range f.Tensors() {
//		data, err := f.Read(t.Name) // little-endian, in C order
//	}
//
// A pickle is a program, and Python's reader lets it call anything. This one knows the instructions
// that build numbers, strings, lists and dictionaries, and the names of PyTorch's tensors and of
// NumPy's arrays;
// any other name, os.system for one, is refused with [ErrForbidden], by name. Nothing is called,
// nothing is imported.
//
// # What is read
//
// The zip files of PyTorch 1.6 and later, and the files before, which are no zip: tensors of all
// dtypes that safetensors has, parameters, views with strides and shared storages, in dictionaries
// and lists however deep. Names of tensors in containers are joined by dots: a checkpoint {"model":
// state_dict} has "model.fc.weight". What else there is, such as the number of an epoch, is in
// [Reader.Value].
//
// TorchScript archives, whole pickled modules and big-endian files are refused, and the error says
// how to convert them. A file is checked when it is opened, so a view that reaches beyond its
// storage, or a tensor larger than it, never gets as far as [Reader.Read]. Memory is bounded by the
// size of the pickle and of one tensor.
//
// # What is written
//
// [WriteFile] writes a [StateDict], or numbers, strings, containers and tensors
// (*safetensors.Entry), as torch.save does, for torch.load with weights_only=True:
//
//	state, err := pickle.StateDict(entries)
//	err = pickle.WriteFile("model.pt", state)
//
// # Why it is written here
//
// Of the libraries for Go, none keeps to an allow-list of names, streams storages from the file and
// reads bfloat16 as it is. What tensors need of the format is small enough to be checked line by
// line.
package pickle
