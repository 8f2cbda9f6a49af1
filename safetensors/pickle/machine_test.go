package pickle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func parse(t testing.TB, code string) (*pickle.Reader, error) {
	t.Helper()
	b := file(t, zip.Store, code)
	return pickle.NewReader(bytes.NewReader(b), int64(len(b)))
}

// Fragments of handwritten pickles.
const (
	head = "\x80\x02"
	// the storage "0" with 4 floats
	store = "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
	begin = "ctorch._utils\n_rebuild_tensor_v2\n("
)

// tensor returns a pickled tensor on that storage.
func tensor(offset, shape, strides string) string {
	return begin + store + offset + shape + strides + "\x89ccollections\nOrderedDict\n)RtR" // no gradient, no hooks
}

func text(s string) string { return "X" + string(rune(len(s))) + "\x00\x00\x00" + s }

// TestCallablesAreRefusedByName tests that anything that a pickle could run in Python gives an
// error that names it.
func TestCallablesAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"os.system", head + "cos\nsystem\nX\x02\x00\x00\x00id\x85R.", "os.system"},
		{"posix.system, protocol 4", "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.", "posix.system"},
		{"eval", head + "c__builtin__\neval\nX\x02\x00\x00\x0011\x85R.", "__builtin__.eval"},
		{"getattr", head + "cbuiltins\ngetattr\n.", "builtins.getattr"},
		{"torch.load", head + "ctorch\nload\n.", "torch.load"},
		{"torch.hub.load", head + "ctorch.hub\nload\n.", "torch.hub.load"},
		{"another part of an allowed module", head + "ctorch._utils\n_import_dotted_name\n.",
			"torch._utils._import_dotted_name"},
		{"a dotted name", head + "ctorch\nfloat32.__class__\n.", "torch.float32.__class__"},
		{"a name with the module inside", head + "c\ntorch.Size\n.", ".torch.Size"},
		{"calling a dtype", head + "ctorch\nfloat32\n)R.", "torch.float32"},
		{"calling a string", head + "X\x02\x00\x00\x00id)R.", "str"},
		{"attributes of a tensor", head + tensor("K\x00", ")", ")") + "}b.", "tensor"},
		{"objects of classes", head + "cos\nsystem\n)\x81.", "os.system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.code)
			var f *pickle.FormatError
			if !errors.Is(err, pickle.ErrForbidden) || !errors.As(err, &f) || f.Name != c.want || f.Offset < 0 {
				t.Errorf("error %v, want ErrForbidden for %s", err, c.want)
			}
		})
	}
}

func TestDamagedPicklesAreRefused(t *testing.T) {
	const huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
	one := tensor("K\x00", ")", ")")
	for _, c := range []struct {
		name, code string
		err        error
		want       string
	}{
		{"nothing", "", pickle.ErrMalformed, "in the middle of an instruction"},
		{"no end", head + "}", pickle.ErrMalformed, "in the middle"},
		{"an empty stack", head + ".", pickle.ErrMalformed, "leaves 0 values"},
		{"two values", head + "NN.", pickle.ErrMalformed, "leaves 2 values"},
		{"a mark left over", head + "(.", pickle.ErrMalformed, "leaves a mark"},
		{"an old protocol", "\x80\x01N.", pickle.ErrUnknown, "protocol 1"},
		{"a new protocol", "\x80\x06N.", pickle.ErrUnknown, "protocol 6"},
		{"objects", head + "N)\x81.", pickle.ErrUnknown, "0x81"},
		{"instances", head + "(ios\nsystem\n.", pickle.ErrUnknown, "0x69 ('i')"},
		{"extensions", head + "\x82\x01.", pickle.ErrUnknown, "0x82"},
		{"buffers outside", "\x80\x05\x97.", pickle.ErrUnknown, "0x97"},
		{"references as text", head + "P1\n.", pickle.ErrUnknown, "0x50 ('P')"},
		{"a missing value", head + "a.", pickle.ErrMalformed, "1 values are wanted, there are 0"},
		{"a missing mark", head + "]e.", pickle.ErrMalformed, "a mark is missing"},
		{"a mark as a value", head + "](a.", pickle.ErrMalformed, "a value is missing"},
		{"a mark kept", head + "(q\x00.", pickle.ErrMalformed, "a value is missing"},
		{"something never kept", head + "h\x05.", pickle.ErrMalformed, "never put aside"},
		{"a tuple changed", head + ")Na.", pickle.ErrMalformed, "changes a tuple"},
		{"a list with keys", head + "]NNs.", pickle.ErrMalformed, "changes a list"},
		{"half a pair", head + "}(Nu.", pickle.ErrMalformed, "odd number"},
		{"a list as a key", head + "}]Ns.", pickle.ErrMalformed, "key of type list"},
		{"a long string", head + "X\xff\xff\xff\xffab.", pickle.ErrMalformed, "in the middle"},
		{"a longer string", "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab.", pickle.ErrMalformed, "in the middle"},
		{"a string of bytes", head + "X\x01\x00\x00\x00\xff.", pickle.ErrMalformed, "not UTF-8"},
		{"a name without end", head + "ctorch", pickle.ErrMalformed, "a name has no end"},
		{"a name of numbers", "\x80\x04K\x01K\x02\x93.", pickle.ErrMalformed, "want two strings"},
		{"a list in itself", head + "]q\x00h\x00a.", pickle.ErrTooLarge, "deep in each other"},
		{"a storage of nothing", head + "NQ.", pickle.ErrMalformed, "want a tuple of storage"},
		{"a storage of another kind", head + strings.Replace(store, "FloatStorage", "float32", 1) + ".",
			pickle.ErrMalformed, "has the type torch.float32"},
		{"a storage that is not there", head + strings.Replace(store, "\x00\x00\x000X", "\x00\x00\x001X", 1) + ".",
			pickle.ErrMalformed, "the zip does not have it"},
		{"a storage that is larger", head + strings.Replace(store, "K\x04", "K\x05", 1) + ".", pickle.ErrMalformed,
			"counts 5 elements of 4"},
		{"a storage of a negative size", head + strings.Replace(store, "K\x04", "J\xff\xff\xff\xff", 1) + ".",
			pickle.ErrMalformed, "not negative"},
		{"a storage whose size is 2^60 values", head + "(NNNtq\x05" + strings.Repeat("h\x05h\x05\x86q\x05", 60) +
			"(" + text("storage") + "NNNh\x05tQ.", pickle.ErrMalformed, "size tuple"},
		{"a storage of an enormous size", head + strings.Replace(store, "K\x04", huge, 1) + ".", pickle.ErrMalformed,
			"counts 9223372036854775807"},
		{"a view that is negated", head + strings.TrimSuffix(tensor("K\x00", "K\x02\x85", "K\x01\x85"), "tR") + "}" +
			text("neg") + "\x88stR.", pickle.ErrDType, "resolve_neg"},
		{"a tensor beyond the storage", head + tensor("K\x01", "K\x04\x85", "K\x01\x85") + ".", pickle.ErrMalformed,
			"reaches beyond its 4 elements"},
		{"strides beyond the storage", head + tensor("K\x00", "K\x02\x85", "K\x04\x85") + ".", pickle.ErrMalformed,
			"reaches beyond"},
		{"a negative stride", head + tensor("K\x00", "K\x02\x85", "J\xff\xff\xff\xff\x85") + ".", pickle.ErrMalformed,
			"as many strides"},
		{"a negative offset", head + tensor("J\xff\xff\xff\xff", "K\x02\x85", "K\x01\x85") + ".", pickle.ErrMalformed,
			"reaches beyond"},
		{"sizes that overflow", head + tensor("K\x00", huge+"\x85", huge+"\x85") + ".", pickle.ErrMalformed,
			"reaches beyond"},
		{"an offset that overflows", head + tensor(huge, "K\x02\x85", "K\x01\x85") + ".", pickle.ErrMalformed,
			"reaches beyond"},
		{"one element again and again", head + tensor("K\x00", "K\xff\x85", "K\x00\x85") + ".", pickle.ErrTooLarge,
			"repeats the 4 elements"},
		{"fewer strides", head + tensor("K\x00", "K\x02K\x02\x86", "K\x01\x85") + ".", pickle.ErrMalformed,
			"as many strides"},
		{"an empty tensor far away", head + tensor("K\x05", "K\x00\x85", "K\x01\x85") + ".", pickle.ErrMalformed,
			"begins at 5 of 4"},
		{"half a tensor", head + begin + store + "tR.", pickle.ErrMalformed, "made of 1 values"},
		{"the same name twice", head + "}(" + text("a.b") + one + text("a") + "}" + text("b") + one + "su.",
			pickle.ErrMalformed, "two tensors get this name"},
		{"names that are long together", head + "}X\xa0\x0f\x00\x00" + strings.Repeat("k", 4000) + "](" + one +
			"q\x05" + strings.Repeat("h\x05", 20000) + "es.", pickle.ErrTooLarge, "needs more than 52 MB"},
		{"too many waiting values", head + "(" + strings.Repeat("N", 5<<20) + "t.", pickle.ErrTooLarge,
			"more than 262144 values waiting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.code)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %v with %q", err, c.err, c.want)
			}
		})
	}
}

// TestSharedContainersDoNotExplode reads thirty lists, each of which contains the previous one
// twice: a naive walk would visit 2^30 values.
func TestSharedContainersDoNotExplode(t *testing.T) {
	code := head + "(]q\x00"
	for i := byte(0); i < 30; i++ {
		code += "](h" + string([]byte{i}) + "h" + string([]byte{i}) + "eq" + string([]byte{i + 1})
	}
	if _, err := parse(t, code+"t."); !errors.Is(err, pickle.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}

func TestATensorAloneHasNoName(t *testing.T) {
	r, err := parse(t, head+tensor("K\x02", "K\x02\x85", "K\x01\x85")+".")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := r.Read(""); err != nil || len(data) != 8 {
		t.Errorf("%d bytes, error %v; want 8", len(data), err)
	}
}

// TestSizesThatTheFileDoesNotHaveAreRefused reads a file whose zip directory and pickle both claim
// a terabyte.
func TestSizesThatTheFileDoesNotHaveAreRefused(t *testing.T) {
	const terabyte = "\x8a\x06\x00\x00\x00\x00\x40\x00" // 2^38 elements
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	code := head + strings.Replace(tensor("K\x00", terabyte+"\x85", "K\x01\x85"), "K\x04tQ", terabyte+"tQ", 1) + "."
	add(t, w, "x/data.pkl", zip.Store, []byte(code))
	out, err := w.CreateRaw(&zip.FileHeader{Name: "x/data/0", Method: zip.Store, CompressedSize64: 1 << 40,
		UncompressedSize64: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pickle.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); !errors.Is(err, pickle.ErrMalformed) ||
		!strings.Contains(err.Error(), "but the file ends at") {
		t.Errorf("error %v, want ErrMalformed that names the end of the file", err)
	}
}

func TestLongNamesAreRefused(t *testing.T) {
	long := strings.Repeat("a", 5000)
	code := head + "}X\x88\x13\x00\x00" + long + tensor("K\x00", ")", ")") + "s."
	if _, err := parse(t, code); !errors.Is(err, pickle.ErrTooLarge) || len(err.Error()) > 300 {
		t.Errorf("error %.400v, want a short ErrTooLarge", err)
	}
}
