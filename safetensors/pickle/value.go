package pickle

import (
	"fmt"
	"strconv"
)

// Tuple, List and Dict are Python's containers. Name is an object of PyTorch or NumPy that is known
// by its name, such as "torch.float32" or "torch.device". Other values are nil, bool, int64,
// *big.Int, float64, string, []byte, *[Tensor] and *[Array].
type (
	Name  string
	Tuple []any
	List  struct{ Items []any }
	// Dict keeps the order of its keys, which are unique.
	Dict struct {
		Keys    []any
		Values  []any
		Ordered bool // a collections.OrderedDict, as state dicts are

		index map[any]int
	}
)

// Get returns the value under a key.
func (d *Dict) Get(key string) (value any, ok bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.Values[i], true
}

// Set adds a key, a string or an int64, or replaces its value.
func (d *Dict) Set(key, value any) error {
	if n, ok := key.(int); ok {
		key = int64(n)
	}
	return d.set(key, value)
}

// set adds a key or replaces its value, as Python does.
func (d *Dict) set(key, value any) error {
	switch key.(type) {
	case nil, bool, int64, float64, string:
	default:
		return fmt.Errorf("a dictionary has a key of type %s; want a string or a number", describe(key))
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	if i, ok := d.index[key]; ok {
		d.Values[i] = value
		return nil
	}
	d.index[key] = len(d.Keys)
	d.Keys = append(d.Keys, key)
	d.Values = append(d.Values, value)
	return nil
}

// Values that exist only while a pickle is executed.
type (
	mark    struct{}
	storage struct {
		name  string // name of the file in the zip
		key   string
		dtype dtype
		bytes int64
	}
)

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Tensor:
		return "tensor"
	case *Array:
		return "array"
	case *arrayType:
		return "dtype"
	case Name:
		return string(v)
	case storage:
		return "storage"
	case mark:
		return "mark"
	}
	return fmt.Sprintf("%T", v)
}

// maxDepth limits the nesting of containers, since a list may contain itself.
const maxDepth = 64

// flattener collects all tensors in a value under their names.
type flattener struct {
	tensors []Tensor
	byName  map[string]int
	visits  int
	spent   *budget

	expected int // number of tensors for which memory was allocated
}

// maxVisits limits the walk, since a shared container is walked each time it occurs. maxName limits
// the joined names, since a shared tensor gets a name each time, which begins with that of its
// container.
const (
	maxVisits = 4 << 20
	maxName   = 4 << 10
)

func (f *flattener) walk(name string, v any, depth int) error {
	if f.visits++; f.visits > maxVisits {
		return fault(ErrTooLarge, name, "it has more than %d values", maxVisits)
	}
	if depth > maxDepth {
		return fault(ErrTooLarge, name, "containers are more than %d deep in each other", maxDepth)
	}
	if len(name) > maxName {
		return fault(ErrTooLarge, name[:40]+"...", "a tensor's name has %d bytes; want at most %d", len(name), maxName)
	}
	join := func(key string) string {
		if name == "" {
			return key
		}
		return name + "." + key
	}
	each := func(items []any) error {
		for i, item := range items {
			if err := f.walk(join(strconv.Itoa(i)), item, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	switch v := v.(type) {
	case *Tensor:
		size := 280 + 2*len(name)
		if len(f.tensors) >= f.expected {
			size += 1000 // the list and the map grow
		}
		if err := f.spent.take(size); err != nil {
			return err
		}
		if _, twice := f.byName[name]; twice {
			return fault(ErrMalformed, name, "two tensors get this name")
		}
		f.byName[name] = len(f.tensors)
		t := *v
		t.Name = name
		f.tensors = append(f.tensors, t)
	case Tuple:
		return each(v)
	case *List:
		return each(v.Items)
	case *Dict:
		for i, key := range v.Keys {
			if err := f.walk(join(fmt.Sprint(key)), v.Values[i], depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
