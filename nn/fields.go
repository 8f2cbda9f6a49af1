package nn

import (
	"reflect"

	"github.com/gotrainer/gotrainer/torch"
)

// ParamField is a field of a module that holds a parameter.
type ParamField struct {
	Name   string
	Tensor *torch.Tensor // may be undefined
}

// ParamFields returns the fields of a module, and of all modules in it, that hold parameters, in
// the order of [Params]. Unlike Params, it lists a parameter that is used in several places once
// for each of them, and includes fields without a parameter. A module computes with what a field
// currently holds; this is how package dist/shard lends it parameters. Modules that keep
// parameters elsewhere (RNNs, parametrizations) cause an error that names the first.
func ParamFields(m any) (fields []ParamField, err error) {
	each(m, func(n node) {
		if l, ok := n.module.(ParamLister); ok && len(l.OwnParams()) > 0 && err == nil {
			err = torch.Errorf("nn.ParamFields", torch.ErrNotSupported, "%s is a %s, whose parameters are not fields",
				describe(n.name), typeName(n.module))
		}
		if n.value.Kind() != reflect.Struct || !n.value.CanAddr() {
			return
		}
		for _, f := range layoutOf(n.value.Type()).params {
			t := n.value.FieldByIndex(f.index).Addr().Interface().(*torch.Tensor)
			fields = append(fields, ParamField{n.join(f.name), t})
		}
	})
	return fields, err
}
