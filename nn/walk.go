package nn

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// Named is a module with its name inside another module; the name of that module itself is empty.
type Named struct {
	Name   string
	Module any
}

// Params returns the parameters of a module and all modules in it: Module.named_parameters. A
// module's own come before its children's; a parameter that is used in several places is listed
// once, under its first name.
func Params(m any) []torch.Named {
	return distinct(m, func(n node) []torch.Named { return n.params() })
}

// Buffers returns the buffers of a module and all modules in it, in the order of [Params]:
// Module.named_buffers.
func Buffers(m any) []torch.Named {
	return distinct(m, func(n node) []torch.Named {
		var ts []torch.Named
		for _, b := range n.buffers() {
			ts = append(ts, b.Named)
		}
		return ts
	})
}

// StateDict returns what belongs in a file: the parameters and persistent buffers of a module,
// then those of its children: Module.state_dict. A tensor that is used in several places is listed
// under each of its names.
func StateDict(m any) []torch.Named {
	var ts []torch.Named
	for _, s := range state(m) {
		ts = append(ts, s.Named)
	}
	return ts
}

// Children returns the modules directly in m: Module.named_children.
func Children(m any) []Named {
	var children []Named
	seen := map[identity]bool{}
	for _, c := range root(m).children() {
		if !seen[c.id] || c.id == (identity{}) {
			seen[c.id] = true
			children = append(children, Named{c.name, c.module})
		}
	}
	return children
}

// Modules returns m and all modules in it, each once and before its children:
// Module.named_modules.
func Modules(m any) []Named {
	var modules []Named
	each(m, func(n node) { modules = append(modules, Named{n.name, n.module}) })
	return modules
}

// ModulesMatching returns the modules in m whose names match a pattern, in the order of [Modules].
// Patterns are those of [Freeze]: "encoder.*" matches everything in encoder, "*.norm" every module
// of that name. A pattern that is malformed or matches no module is an error.
func ModulesMatching(m any, patterns ...string) ([]Named, error) {
	all := Modules(m)
	matched := make([]bool, len(all))
	for _, pattern := range patterns {
		found := false
		for i, n := range all {
			ok, err := path.Match(pattern, n.Name)
			if err != nil {
				return nil, fmt.Errorf("nn: pattern %q of module names: %w", pattern, err)
			}
			found = found || ok
			matched[i] = matched[i] || ok
		}
		if !found {
			return nil, fmt.Errorf("nn: no module's name matches the pattern %q; there are %d, the last is %q", pattern,
				len(all), all[len(all)-1].Name)
		}
	}
	var list []Named
	for i, n := range all {
		if matched[i] {
			list = append(list, n)
		}
	}
	return list, nil
}

// SetTraining switches m and all modules in it between training and evaluation: Module.train and
// Module.eval. It calls the method SetTraining(bool) of each module that has one; such a method
// must switch only its own module. See [Mode].
func SetTraining(m any, on bool) {
	for _, n := range Modules(m) {
		if s, ok := n.Module.(interface{ SetTraining(bool) }); ok {
			s.SetTraining(on)
		}
	}
}

// node is a module visited while walking a model.
type node struct {
	name   string
	module any           // a pointer to a struct, a slice, a map, or a struct without parameters
	value  reflect.Value // the struct, slice or map
	id     identity
}

// identity identifies a module: two nodes with the same identity are the same module. It is the
// zero value for modules without an identity, such as structs without fields.
type identity struct {
	t       reflect.Type
	address uintptr
	length  int
}

func root(m any) node {
	n, ok := resolve("", reflect.ValueOf(m))
	if !ok {
		panic(torch.Errorf("nn.Params", torch.ErrUndefined, "the module is nil"))
	}
	return n
}

// resolve follows pointers and interfaces to a module. It returns false if there is none.
func resolve(name string, v reflect.Value) (node, bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return node{}, false
		}
		v = v.Elem()
	}
	n := node{name: name, value: v}
	switch v.Kind() {
	case reflect.Struct:
		switch {
		case v.CanAddr():
			n.module = v.Addr().Interface()
			if v.Type().Size() > 0 { // structs of size 0 may share an address
				n.id = identity{t: v.Type(), address: v.Addr().Pointer()}
			}
		case v.Type() == tensorType:
			panic(torch.Errorf("nn.Params", torch.ErrType, "%s is a torch.Tensor, not a module", describe(name)))
		case !layoutOf(v.Type()).empty() || reflect.PointerTo(v.Type()).Implements(modeType):
			panic(torch.Errorf("nn.Params", torch.ErrType, "%s is a %s by value, a copy that cannot be changed; use a "+
				"pointer to it", describe(name), v.Type()))
		default:
			n.module = v.Interface()
		}
		layoutOf(v.Type()) // panics early on wrong tags
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			return node{}, false
		}
		n.module = v.Interface()
		n.id = identity{v.Type(), v.Pointer(), v.Len()}
	case reflect.Array:
		if !v.CanAddr() {
			panic(torch.Errorf("nn.Params", torch.ErrType,
				"%s is an array by value, a copy that cannot be changed; use a slice", describe(name)))
		}
		n.module = v.Addr().Interface()
		n.id = identity{t: v.Type(), address: v.Addr().Pointer()}
	case reflect.Invalid:
		return node{}, false
	default:
		panic(torch.Errorf("nn.Params", torch.ErrType, "%s is a %s; want a pointer to a struct, a slice or a map of "+
			"modules",
			describe(name), v.Type()))
	}
	return n, true
}

func describe(name string) string {
	if name == "" {
		return "the module"
	}
	return "the module " + strconv.Quote(name)
}

func (n node) join(name string) string {
	if n.name == "" || name == "" {
		return n.name + name
	}
	return n.name + "." + name
}

// children returns the direct submodules of n, with their full names.
func (n node) children() []node {
	var list []node
	add := func(name string, v reflect.Value) {
		if c, ok := resolve(n.join(name), v); ok {
			list = append(list, c)
		}
	}
	switch n.value.Kind() {
	case reflect.Struct:
		for _, f := range layoutOf(n.value.Type()).children {
			add(f.name, n.value.FieldByIndex(f.index))
		}
		if l, ok := n.module.(ModuleLister); ok {
			for _, m := range l.OwnModules() {
				add(m.Name, reflect.ValueOf(m.Module))
			}
		}
	case reflect.Map:
		keys := n.value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			if k.String() == "" || strings.Contains(k.String(), ".") {
				panic(torch.Errorf("nn.Params", torch.ErrValue, "%s: the key %q must not be empty nor have a dot",
					describe(n.name), k.String()))
			}
			add(k.String(), n.value.MapIndex(k))
		}
	default:
		for i := range n.value.Len() {
			add(strconv.Itoa(i), n.value.Index(i))
		}
	}
	return list
}

// params returns the parameters that belong to n itself.
func (n node) params() []torch.Named {
	n.mustHaveSizes()
	var ts []torch.Named
	if n.value.Kind() == reflect.Struct {
		for _, f := range layoutOf(n.value.Type()).params {
			if t := n.value.FieldByIndex(f.index).Interface().(torch.Tensor); t.Defined() {
				ts = append(ts, torch.Named{Name: n.join(f.name), Tensor: t})
			}
		}
	}
	if l, ok := n.module.(ParamLister); ok {
		for _, p := range l.OwnParams() {
			if p.Tensor.Defined() {
				ts = append(ts, torch.Named{Name: n.join(p.Name), Tensor: p.Tensor})
			}
		}
	}
	return ts
}

// mustHaveSizes panics if n is a lazy layer that has not seen an input yet.
func (n node) mustHaveSizes() {
	if l, ok := n.module.(interface{ pending() string }); ok && l.pending() != "" {
		panic(torch.Errorf("nn.Params", torch.ErrUndefined, "%s is a %s that has seen no input yet, and so has no "+
			"parameters "+
			"to list, load or train; call Forward once before", describe(n.name), l.pending()))
	}
}

// entry is a tensor of a module's state.
type entry struct {
	torch.Named
	nonPersistent, optional bool
}

// buffers returns the buffers that belong to n itself.
func (n node) buffers() []entry {
	n.mustHaveSizes()
	if n.value.Kind() != reflect.Struct {
		return nil
	}
	var list []entry
	for _, f := range layoutOf(n.value.Type()).buffers {
		if t := n.value.FieldByIndex(f.index).Interface().(torch.Tensor); t.Defined() {
			list = append(list, entry{torch.Named{Name: n.join(f.name), Tensor: t}, f.nonPersistent, f.optional})
		}
	}
	return list
}

// each calls f for m and all modules in it, once each, parents before children.
func each(m any, f func(node)) {
	seen := map[identity]bool{}
	var visit func(node)
	visit = func(n node) {
		if n.id != (identity{}) {
			if seen[n.id] {
				return
			}
			seen[n.id] = true
		}
		f(n)
		for _, c := range n.children() {
			visit(c)
		}
	}
	visit(root(m))
}

// distinct collects the tensors of all modules, each tensor once. It panics if two different
// tensors have the same name.
func distinct(m any, tensors func(node) []torch.Named) []torch.Named {
	var list []torch.Named
	seen := map[torch.Tensor]bool{}
	names := map[string]bool{}
	each(m, func(n node) {
		for _, t := range tensors(n) {
			if seen[t.Tensor] {
				continue
			}
			if names[t.Name] {
				panic(badTag("two tensors have the name %q", t.Name))
			}
			seen[t.Tensor], names[t.Name] = true, true
			list = append(list, t)
		}
	})
	return list
}

// state returns parameters and persistent buffers, each under all of its names.
func state(m any) []entry {
	var list []entry
	names := map[string]bool{}
	above := map[identity]bool{}
	var visit func(node)
	visit = func(n node) {
		if n.id != (identity{}) {
			if above[n.id] {
				panic(badTag("%s contains itself", describe(n.name)))
			}
			above[n.id] = true
			defer delete(above, n.id)
		}
		own := make([]entry, 0, 4)
		for _, p := range n.params() {
			own = append(own, entry{Named: p})
		}
		for _, e := range append(own, n.buffers()...) {
			if e.nonPersistent {
				continue
			}
			if names[e.Name] {
				panic(badTag("two tensors have the name %q", e.Name))
			}
			names[e.Name] = true
			list = append(list, e)
		}
		for _, c := range n.children() {
			visit(c)
		}
	}
	visit(root(m))
	return list
}

// CountParams returns how many numbers the parameters of m hold, including quantized ones, and how
// many of them are trainable.
func CountParams(m any) (total, trainable int64) {
	packed := map[torch.Tensor]int64{}
	each(m, func(n node) {
		if q, ok := n.module.(interface{ Quantized() QuantizedWeight }); ok && q.Quantized() != nil {
			out, in := q.Quantized().Size()
			packed[q.Quantized().Packed()] = out * in
		}
	})
	for _, p := range Params(m) {
		n, ok := packed[p.Tensor]
		if !ok {
			n = p.Tensor.Numel()
		}
		total += n
		if p.Tensor.NeedsGrad() {
			trainable += n
		}
	}
	return total, trainable
}

// typeName returns a module's type in the form that Go code uses: "nn.Linear".
func typeName(m any) string {
	if l, ok := m.(interface{ typeName() string }); ok {
		return l.typeName()
	}
	return strings.TrimLeft(fmt.Sprintf("%T", m), "*")
}
