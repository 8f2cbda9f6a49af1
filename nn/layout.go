package nn

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

// layout is the decoded tags of a struct type. It is computed once per type.
type layout struct{ params, buffers, children []field }

func (l *layout) empty() bool { return len(l.params)+len(l.buffers)+len(l.children) == 0 }

type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex

	nonPersistent, optional bool // options of a buffer
}

var (
	tensorType = reflect.TypeFor[torch.Tensor]()
	layerType  = reflect.TypeFor[Layer]()
	listerType = reflect.TypeFor[ParamLister]()
	modeType   = reflect.TypeFor[interface{ SetTraining(bool) }]()

	layouts sync.Map // reflect.Type to *layout
)

// layoutOf decodes the tags of a struct type. It panics if they are invalid.
func layoutOf(t reflect.Type) *layout {
	if l, ok := layouts.Load(t); ok {
		return l.(*layout)
	}
	l := &layout{}
	l.read(t, t, nil, map[string]string{})
	layouts.Store(t, l)
	return l
}

// read adds the fields of t, which is the module's type or a struct embedded in it. used maps each
// name to the field that has it.
func (l *layout) read(module, t reflect.Type, path []int, used map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		where := fmt.Sprintf("%s, field %s", module, f.Name)
		index := append(append([]int(nil), path...), i)
		kind, tag := tagOf(where, f)
		if kind == "" {
			if f.Anonymous && f.Type.Kind() == reflect.Struct {
				l.read(module, f.Type, index, used)
			} else {
				mayBeUntagged(where, f)
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" && kind == "module" {
			continue
		}
		if tag == ",inline" && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			l.read(module, f.Type.Elem(), index, used) // for Lazy, which cannot embed a type parameter
			continue
		}
		switch {
		case !f.IsExported():
			panic(badTag("%s has a tag but is not exported", where))
		case name == "" || strings.Contains(name, "."):
			panic(badTag("%s: the name %q in the tag must not be empty nor have a dot", where, name))
		case used[name] != "":
			panic(badTag("%s: the name %q is already that of %s", where, name, used[name]))
		case kind == "module" && !canBeModule(f.Type):
			panic(badTag("%s is a %s; a module is a struct, a pointer to one, an interface, or a slice or "+
				"map[string] of these", where, f.Type))
		case kind != "module" && f.Type != tensorType:
			panic(badTag("%s is a %s; a %s is a torch.Tensor (a module with more of them implements ParamLister)",
				where, f.Type, kind))
		}
		used[name] = f.Name
		entry := field{name: name, index: index}
		for option := range strings.SplitSeq(options, ",") {
			switch {
			case option == "":
			case option == "nonpersistent" && kind == "buffer":
				entry.nonPersistent = true
			case option == "optional" && kind == "buffer":
				entry.optional = true
			default:
				panic(badTag("%s: %q is no option of the tag %s; buffers have nonpersistent and optional", where,
					option, kind))
			}
		}
		switch kind {
		case "param":
			l.params = append(l.params, entry)
		case "buffer":
			l.buffers = append(l.buffers, entry)
		case "module":
			l.children = append(l.children, entry)
		}
	}
}

// mayBeUntagged panics if a field needs a tag.
func mayBeUntagged(where string, f reflect.StructField) {
	switch name := strings.ToLower(f.Name); {
	case holdsParams(f.Type, map[reflect.Type]bool{}):
		panic(badTag("%s holds parameters but has no tag: they would be neither trained nor saved; export it "+
			"and add `module:%q`, or `module:\"-\"` if they belong elsewhere", where, name))
	case !f.Anonymous && hasMode(f.Type): // an embedded mode is switched with its module
		panic(badTag("%s depends on the mode but has no tag: nn.SetTraining would not reach it, so it would stay "+
			"in training mode; export it and add `module:%q`, or `module:\"-\"` if you switch it yourself", where, name))
	}
}

// tagOf returns which of the three tags a field has, if any, and its value.
func tagOf(where string, f reflect.StructField) (kind, tag string) {
	for _, k := range []string{"param", "buffer", "module"} {
		if s, ok := f.Tag.Lookup(k); ok {
			if kind != "" {
				panic(badTag("%s has the tags %s and %s; want one", where, kind, k))
			}
			kind, tag = k, s
		}
	}
	return kind, tag
}

func canBeModule(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return t.Elem() != tensorType && canBeModule(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && t.Elem().Kind() != reflect.Struct && canBeModule(t.Elem())
	case reflect.Struct:
		return t != tensorType
	}
	return t.Kind() == reflect.Interface
}

// holdsParams reports whether values of a type hold parameters, as far as the type tells. seen
// stops the recursion for recursive types.
func holdsParams(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return t.Implements(listerType) || holdsParams(t.Elem(), seen)
	case reflect.Interface:
		return t.Implements(layerType)
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(listerType) {
			return true
		}
		for i := range t.NumField() {
			f := t.Field(i)
			kind, tag := tagOf("", f)
			if kind == "param" || kind == "buffer" || kind == "module" && tag != "-" || f.Anonymous && kind == "" &&
				holdsParams(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// hasMode reports whether values of a type behave differently in evaluation mode, as Dropout does.
func hasMode(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return t.Implements(modeType) || hasMode(t.Elem())
	case reflect.Interface, reflect.Struct:
		return t.Implements(modeType) || reflect.PointerTo(t).Implements(modeType)
	}
	return false
}

func badTag(format string, args ...any) *torch.Error {
	return torch.Errorf("nn.Params", torch.ErrInvalid, format, args...)
}
