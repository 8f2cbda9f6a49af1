// Package pickle reads the tensors in files written by torch.save, such as pytorch_model.bin,
// without executing what is in them, and writes such files.
//
//	f, err := pickle.Open("pytorch_model.bin")
//	defer f.Close()
//	for _, t := range f.Tensors() {
//		data, err := f.Read(t.Name) // little-endian, in C order
//	}
//
// A pickle is a program, and Python's reader lets it call anything. This one knows only the
// instructions that build numbers, strings, lists and dictionaries, and the names of PyTorch's
// tensors and NumPy's arrays. Any other name, such as os.system, is refused with [ErrForbidden].
// Nothing is called, nothing is imported.
//
// # What is read
//
// The zip files of PyTorch 1.6 and later, and the older files, which are not zip files: tensors of
// all dtypes that safetensors has, parameters, views with strides, and shared storages, in
// dictionaries and lists of any depth. Names of tensors in containers are joined by dots: a
// checkpoint {"model": state_dict} has "model.fc.weight". Everything else, such as the number of an
// epoch, is in [Reader.Value].
//
// TorchScript archives, whole pickled modules and big-endian files are refused, and the error says
// how to convert them. A file is checked when it is opened, so [Reader.Read] never meets a view
// that reaches beyond its storage, or a tensor larger than it. Memory is bounded by the size of the
// pickle and of one tensor.
//
// # What is written
//
// [WriteFile] writes a [StateDict], or numbers, strings, containers and tensors
// (*safetensors.Entry), as torch.save does, for torch.load with weights_only=True:
//
//	state, err := pickle.StateDict(entries)
//	err = pickle.WriteFile("model.pt", state)
//
// # Why not an existing library
//
// No Go library keeps to an allow-list of names, streams storages from the file and reads bfloat16
// as it is. The part of the format that tensors need is small enough to be checked line by line.
package pickle
