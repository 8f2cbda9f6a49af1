package main

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// kind says how a type of the schema is passed through the layers; $ stands for the argument's
// name.
type kind struct {
	c      string // C parameters
	cxx    string // C++ expression for ATen
	raw    string // Go type in cgotorch
	rawC   string // Go expression that makes the C arguments
	torch  string // Go type in torch
	toRaw  string // torch expression for cgotorch; @ stands for the operator's Go name
	tensor bool   // must be kept alive during the call
}

var kinds = map[string]kind{
	"Tensor":  {"ct_tensor $", "get($)", "Tensor", "C.ct_tensor($)", "Tensor", `$.ptr("@")`, true},
	"Tensor!": {"ct_tensor $", "get_mutable($)", "Tensor", "C.ct_tensor($)", "Tensor", `$.ptr("@")`, true},
	"Tensor?": {"ct_tensor $", "get_optional($)", "Tensor", "C.ct_tensor($)", "Tensor", `$.optional("@")`, true},
	"Tensor[]": {"const ct_tensor *$, int64_t $_n", "get_list($, $_n)", "[]Tensor",
		"handles($), C.int64_t(len($))", "[]Tensor", `required("@", $)`, true},
	"Tensor?[]": {"const ct_tensor *$, int64_t $_n", "get_optional_list($, $_n)", "[]Tensor",
		"handles($), C.int64_t(len($))", "[]Tensor", `pointers("@", $)`, true},
	"int":     {"int64_t $", "$", "int64", "C.int64_t($)", "int64", "$", false},
	"SymInt":  {"int64_t $", "c10::SymInt($)", "int64", "C.int64_t($)", "int64", "$", false},
	"int?":    {"ct_optional_int $", "get($)", "OptionalInt", "$.c()", "*int64", "optionalInt($)", false},
	"SymInt?": {"ct_optional_int $", "get_sym($)", "OptionalInt", "$.c()", "*int64", "optionalInt($)", false},
	"float":   {"double $", "$", "float64", "C.double($)", "float64", "$", false},
	"float?": {"ct_optional_double $", "get($)", "OptionalDouble", "$.c()", "*float64", "optionalDouble($)",
		false},
	"bool":   {"int32_t $", "($ != 0)", "bool", "boolean($)", "bool", "$", false},
	"Scalar": {"ct_scalar $", "get($)", "Scalar", "$.c()", "any", `scalar("@", $)`, false},
	// a Tensor in the schema for which a number is passed: see "number" in ops.txt
	"Number":  {"ct_scalar $", "get_number($)", "Scalar", "$.c()", "any", `scalar("@", $)`, false},
	"Scalar?": {"ct_scalar $", "get_optional($)", "Scalar", "$.c()", "any", `optionalScalar("@", $)`, false},
	"int[]": {"const int64_t *$, int64_t $_n", "get_ints($, $_n)", "[]int64", "ints($), C.int64_t(len($))",
		"[]int64", "$", false},
	"SymInt[]": {"const int64_t *$, int64_t $_n", "get_sym_ints($, $_n)", "[]int64", "ints($), C.int64_t(len($))",
		"[]int64", "$", false},
	"int[]?": {"const int64_t *$, int64_t $_n", "get_optional_ints($, $_n)", "[]int64",
		"ints($), optionalLen($)", "[]int64", "$", false},
	"SymInt[]?": {"const int64_t *$, int64_t $_n", "get_optional_sym_ints($, $_n)", "[]int64",
		"ints($), optionalLen($)", "[]int64", "$", false},
	"ScalarType": {"int32_t $", "static_cast<at::ScalarType>($)", "int32", "C.int32_t($)", "DType", "$.code()",
		false},
	"ScalarType?":   {"int32_t $", "get_dtype($)", "int32", "C.int32_t($)", "DType", "$.code()", false},
	"MemoryFormat":  {"int32_t $", "static_cast<at::MemoryFormat>($)", "int32", "C.int32_t($)", "", "", false},
	"MemoryFormat?": {"int32_t $", "get_memory_format($)", "int32", "C.int32_t($)", "", "", false},
	"Device?":       {"int32_t $", "get_device($)", "int32", "C.int32_t($)", "", "", false},
	"str": {"const char *$, int64_t $_n", "std::string_view($, $_n)", "string", "text($), C.int64_t(len($))",
		"string", "$", false},
	"str?": {"const char *$, int64_t $_n", "get_optional_string($, $_n)", "string",
		"text($), C.int64_t(len($))", "string", "$", false},
	"Generator?": {"ct_generator $", "get_generator($)", "Generator", "C.ct_generator($)", "", "", false},
}

func fill(pattern, name string) string { return strings.ReplaceAll(pattern, "$", name) }

// cName avoids C++ keywords and the name of the result.
func cName(n string) string {
	switch n {
	case "self", "out", "default", "int", "float", "template", "register":
		return n + "_"
	}
	return n
}

// goName converts a name of the schema to Go's style: grad_output becomes gradOutput, self becomes
// t.
func goName(n string) string {
	parts := strings.Split(n, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	name := strings.Join(parts, "")
	if other, taken := taken[name]; taken {
		return other
	}
	return name
}

// taken maps names that have another meaning in Go or in the generated code to replacements.
var taken = map[string]string{
	"self": "t", "A": "a", "B": "b", "UPLO": "uplo", "real": "re", "imag": "im", "range": "values", "type": "kind",
	"func": "f", "default": "def", "len": "length", "any": "value", "min": "low", "max": "high",
}

// pythonName returns the operator's name in Python: linalg_inv is torch.linalg.inv.
func (o *op) pythonName() string {
	if o.python != "" {
		return o.python
	}
	base, _, _ := strings.Cut(o.name, ".")
	for _, module := range []string{"linalg", "fft", "special"} {
		if rest, ok := strings.CutPrefix(base, module+"_"); ok {
			return "torch." + module + "." + rest
		}
	}
	return "torch." + base
}

// result describes an operator's result: its C parameter, the C++ statement that sets it, and its
// Go type.
type result struct{ c, cxx, goType string }

func (o *op) result(call string) result {
	switch n := len(o.returns); {
	case n == 0:
		return result{"", call + ";", ""}
	case n == 1 && o.returns[0] == "Tensor":
		return result{"ct_tensor *out", "*out = give(" + call + ");", "Tensor"}
	case n == 1 && o.returns[0] == "Tensor[]":
		return result{"ct_tensor_list *out", "give_list(" + call + ", out);", "TensorList"}
	case n == 1 && o.returns[0] == "bool":
		return result{"int32_t *out", "*out = " + call + ";", "int32"}
	case n == 1 && o.returns[0] == "Scalar":
		return result{"ct_scalar *out", "*out = give(" + call + ");", "Scalar"}
	default:
		s := "auto r = " + call + ";"
		for i, r := range o.returns {
			if r != "Tensor" {
				panic(o.name + ": no mapping for the result " + r)
			}
			s += fmt.Sprintf(" out[%d] = give(std::move(std::get<%d>(r)));", i, i)
		}
		return result{"ct_tensor *out", s, fmt.Sprintf("[%d]Tensor", n)}
	}
}

func (o *op) cParameters() string {
	var list []string
	for _, a := range o.visible() {
		list = append(list, fill(kinds[a.typ].c, cName(a.name)))
	}
	if r := o.result("").c; r != "" {
		list = append(list, r)
	}
	if len(list) == 0 {
		return "void"
	}
	return strings.Join(list, ", ")
}

func emitHeader(ops []*op) []byte {
	var b bytes.Buffer
	b.WriteString(header + "#pragma once\n\ntypedef struct ct_ops {\n")
	for _, o := range ops {
		fmt.Fprintf(&b, "  ct_code (*%s)(%s);\n", o.goName, o.cParameters())
	}
	b.WriteString("} ct_ops;\n")
	return b.Bytes()
}

func emitTrampolines(ops []*op) []byte {
	var b bytes.Buffer
	b.WriteString(header + "#pragma once\n\n")
	for _, o := range ops {
		p := o.cParameters()
		var names []string
		for _, d := range strings.Split(p, ", ") {
			names = append(names, strings.TrimLeft(d[strings.LastIndexByte(d, ' ')+1:], "*"))
		}
		fmt.Fprintf(&b, "static inline ct_code ct_%s(%s) { return ct_operators->%s(%s); }\n", o.goName, p, o.goName,
			strings.Join(names, ", "))
	}
	return b.Bytes()
}

func emitCXX(ops []*op) []byte {
	var b bytes.Buffer
	b.WriteString(header + "#include \"guard.h\"\n\n")
	headers := map[string]bool{}
	for _, o := range ops {
		headers[o.header()] = true
	}
	var names []string
	for h := range headers {
		names = append(names, h)
	}
	sort.Strings(names)
	for _, h := range names {
		fmt.Fprintf(&b, "#include <ATen/ops/%s_ops.h>\n", h)
	}
	b.WriteString("\nnamespace ct {\n\n")
	for _, o := range ops {
		var args []string
		for _, a := range o.args {
			if a.hidden {
				c, _ := a.constant()
				args = append(args, c)
			} else {
				args = append(args, fill(kinds[a.typ].cxx, cName(a.name)))
			}
		}
		r := o.result(fmt.Sprintf("at::_ops::%s::call(%s)", o.aten(), strings.Join(args, ", ")))
		fmt.Fprintf(&b, "static_assert(std::string_view(at::_ops::%s::schema_str) == %q);\n", o.aten(), o.schema)
		fmt.Fprintf(&b, "static ct_code %s(%s) {\n  return guard([&] { %s });\n}\n\n", o.goName, o.cParameters(), r.cxx)
	}
	b.WriteString("} // namespace ct\n\nextern const ct_ops ct_ops_table;\nconst ct_ops ct_ops_table = {\n")
	for _, o := range ops {
		fmt.Fprintf(&b, "    ct::%s,\n", o.goName)
	}
	b.WriteString("};\n")
	return b.Bytes()
}

func emitRaw(ops []*op) []byte {
	var b bytes.Buffer
	b.WriteString(header + "package cgotorch\n\n// #include \"load.h\"\n")
	for _, o := range ops {
		fmt.Fprintf(&b, "// #cgo noescape ct_%[1]s\n// #cgo nocallback ct_%[1]s\n", o.goName)
	}
	b.WriteString("import \"C\"\n\nimport \"unsafe\"\n\n")
	for _, o := range ops {
		var params, args []string
		for _, a := range o.visible() {
			n := goName(a.name)
			params = append(params, n+" "+kinds[a.typ].raw)
			args = append(args, fill(kinds[a.typ].rawC, n))
		}
		if r := o.result(""); r.goType != "" {
			params = append(params, "out *"+r.goType)
			c := strings.TrimSuffix(strings.Fields(r.c)[0], " ")
			args = append(args, fmt.Sprintf("(*C.%s)(unsafe.Pointer(out))", c))
		}
		fmt.Fprintf(&b, "// %s is aten::%s.\nfunc %s(%s) Code {\n\treturn Code(C.ct_%s(%s))\n}\n\n", o.goName, o.schema,
			o.goName, strings.Join(params, ", "), o.goName, strings.Join(args, ", "))
	}
	return b.Bytes()
}

func emitTorch(ops []*op) []byte {
	var b bytes.Buffer
	b.WriteString(header +
		"package torch\n\nimport (\n\t\"runtime\"\n\n\t\"github.com/gotrainer/gotrainer/cgotorch\"\n)\n\n")
	for _, o := range ops {
		if !o.raw {
			o.emitTorch(&b)
		}
	}
	return b.Bytes()
}

func (o *op) emitTorch(b *bytes.Buffer) {
	w := o.wrapper()
	verb := "returns "
	if o.inPlace {
		verb = ""
	}
	fmt.Fprintf(b, "// %s %s%s.\n// It is %s.\n", o.goName, verb, o.doc, o.pythonName())
	declaration, returns, give := o.torchResult()
	fmt.Fprintf(b, "func %s%s(%s) %s {\n", w.receiver, o.goName, strings.Join(w.params, ", "), returns)
	if w.receiver == "" {
		fmt.Fprintf(b, "load(%q)\n", o.goName)
	}
	if declaration != "" {
		fmt.Fprintln(b, declaration)
		w.args = append(w.args, "&out")
	}
	call := fmt.Sprintf("cgotorch.%s(%s)", o.goName, strings.Join(w.args, ", "))
	fmt.Fprintf(b, "code := %s\n", call)
	if !o.inPlace { // an operator that changes its argument must not run twice
		fmt.Fprintf(b, "if code < 0 && reclaim(code) {\ncode = %s\n}\n", call)
	}
	fmt.Fprintf(b, "if code < 0 {\nfail(%q, code%s)\n}\n", o.goName, w.operands())
	fmt.Fprintf(b, "%s\n%s\n}\n\n", strings.Join(w.keep, "\n"), give)
}

// wrapper is the part of an operator's Go function that depends on its arguments.
type wrapper struct {
	receiver      string   // "(t Tensor) "; empty for a function
	params, args  []string // of the function, and of its call into cgotorch
	keep          []string // statements that keep tensors alive during the call
	tensors, list []string // the names of tensors, and of a list of them
}

func (o *op) wrapper() (w wrapper) {
	visible := o.visible()
	for i, a := range visible {
		k, n := kinds[a.typ], goName(a.name)
		if i > 0 && n == "t" && o.method() { // the receiver is already named t
			n = "other"
		}
		if k.torch == "" {
			panic(fmt.Sprintf("%s: an argument of type %s needs a wrapper by hand: mark it raw", o.name, a.typ))
		}
		switch {
		case i == 0 && o.method():
			w.receiver, n = "(t Tensor) ", "t"
		case o.variadic && i == len(visible)-1:
			w.params = append(w.params, n+" ...int64")
		default:
			w.params = append(w.params, n+" "+k.torch)
		}
		w.args = append(w.args, strings.ReplaceAll(fill(k.toRaw, n), "@", o.goName))
		if !k.tensor {
			continue
		}
		w.keep = append(w.keep, "runtime.KeepAlive("+n+")")
		if strings.HasPrefix(k.torch, "[]") {
			w.list = append(w.list, n)
		} else {
			w.tensors = append(w.tensors, n)
		}
	}
	return w
}

// operands returns the tensors as the final arguments of fail, which is variadic.
func (w wrapper) operands() string {
	tensors := strings.Join(w.tensors, ", ")
	switch {
	case len(w.list) == 0 && len(w.tensors) == 0:
		return ""
	case len(w.list) == 0:
		return ", " + tensors
	case len(w.tensors) == 0:
		return ", " + w.list[0] + "..."
	}
	return fmt.Sprintf(", append([]Tensor{%s}, %s...)...", tensors, w.list[0])
}

// torchResult returns the declaration of the result variable in a Go function, the function's
// result type, and its return statement.
func (o *op) torchResult() (declaration, returns, give string) {
	switch r := o.result(""); r.goType {
	case "":
		if o.method() {
			return "", "Tensor", "return t"
		}
		return "", "", ""
	case "Tensor":
		return "var out cgotorch.Tensor", "Tensor", "return wrap(out, code)"
	case "TensorList":
		return "var out cgotorch.TensorList", "[]Tensor", "return wrapList(&out, code)"
	case "int32":
		return "var out int32", "bool", "return out != 0"
	case "Scalar":
		panic(o.name + ": a scalar result needs a wrapper by hand: mark it raw")
	}
	var types, wraps []string
	for i := range o.returns {
		types = append(types, "Tensor")
		wraps = append(wraps, fmt.Sprintf("wrap(out[%d], code)", i))
	}
	return fmt.Sprintf("var out [%d]cgotorch.Tensor", len(o.returns)), "(" + strings.Join(types, ", ") + ")",
		"return " + strings.Join(wraps, ", ")
}
