package torch

import "fmt"

// FromFile returns a CPU tensor over the first bytes of a file, as uint8: torch.from_file without
// shared. The file is mapped and not copied; changes of the tensor do not reach it. Its pages are
// read before FromFile returns, so that what cannot be read is an error here and no signal later.
// Nobody may shorten the file while the tensor or a view of it lives. It needs Linux 5.14.
func FromFile(path string, size int64) (t Tensor, err error) {
	if err := Try(func() { t = Call("aten::from_file", path, false, size, Uint8)[0] }); err != nil {
		return Tensor{}, err
	}
	if data, _ := t.memory("FromFile", true); len(data) > 0 {
		if err := readPages(data); err != nil {
			t.Free()
			return Tensor{}, fmt.Errorf("torch: FromFile: cannot read the pages of %s: %w", path, err)
		}
	}
	return t, nil
}
