package jinja

import (
	"slices"
)

// Template is a parsed template. Several goroutines may render it at a time.
type Template struct {
	body []stmt
	// Generation reports whether the template marks the assistant's text with {% generation %}.
	Generation bool
}

// Parse parses a template.
func Parse(source string) (t *Template, err error) {
	line := 0
	defer catch(&err, &line)
	if len(source) > maxSource {
		fail("LimitError", "the template has %d bytes; at most %d are read", len(source), maxSource)
	}
	p := &parser{tokens: tokenize(source, &line), line: &line, names: []map[string]bool{{}}}
	t = &Template{body: p.body(nil)}
	t.Generation = p.generation
	return t, nil
}

// parser is a recursive descent parser like jinja2's.
type parser struct {
	tokens     []token
	at         int
	line       *int
	depth      int
	loops      int               // enclosing loops of the statement; break and continue need one
	names      []map[string]bool // names that each enclosing macro looks up, innermost last
	generation bool
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	*p.line = t.line
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) is(kind string) bool { return p.peek().kind == kind }

func (p *parser) isName(names ...string) bool {
	return p.is(tokenName) && slices.Contains(names, p.peek().text)
}

func (p *parser) skip(kind string) bool {
	if p.is(kind) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(kind string) token {
	if t := p.peek(); t.kind != kind {
		*p.line = t.line
		fail("TemplateSyntaxError", "expected %q, found %s", kind, t.describe())
	}
	return p.next()
}

func (t token) describe() string {
	if t.kind == tokenName || t.kind == tokenString {
		return t.kind + " '" + t.text + "'"
	}
	return "'" + t.kind + "'"
}

// nest enters a level of nesting in the source and returns the function that leaves it, for defer.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxNesting {
		fail("LimitError", "the template nests more than %d deep", maxNesting)
	}
	return func() { p.depth-- }
}

// body reads statements up to one of the tags in ends. The name of that tag is then the next token.
func (p *parser) body(ends []string) (body []stmt) {
	defer p.nest()()
	for {
		switch t := p.next(); t.kind {
		case tokenData:
			body = append(body, &text{t.text})
		case tokenPrintBegin:
			line := t.line
			body = append(body, &output{p.tuple(tupleOptions{}), line})
			p.expect(tokenPrintEnd)
		case tokenBlockBegin:
			if p.isName(ends...) {
				return body
			}
			body = append(body, p.statement())
			p.expect(tokenBlockEnd)
		default:
			if ends != nil {
				fail("TemplateSyntaxError", "unexpected end of template: the tag %q is missing", ends[len(ends)-1])
			}
			return body
		}
	}
}

// block reads the body between a tag and one of the ends, and returns which end it was.
func (p *parser) block(ends ...string) ([]stmt, string) {
	p.skip(":")
	p.expect(tokenBlockEnd)
	body := p.body(ends)
	return body, p.next().text
}

func (p *parser) statement() stmt {
	t := p.expect(tokenName)
	switch t.text {
	case "if":
		return p.ifStmt(t.line)
	case "for":
		return p.forStmt(t.line)
	case "set":
		return p.setStmt(t.line)
	case "macro":
		return p.macro(t.line)
	case "filter":
		f := p.filters(nil, true)
		body, _ := p.block("endfilter")
		return &filterBlock{f, body, t.line}
	case "call":
		return p.callBlock(t.line)
	case "with":
		return p.with(t.line)
	case "generation":
		p.generation = true
		loops := p.loops
		p.loops = 0 // its body is a function in jinja2, so an outer loop does not count
		body, _ := p.block("endgeneration")
		p.loops = loops
		return &generation{body}
	case "break", "continue":
		if p.loops == 0 {
			fail("TemplateSyntaxError", "%q is outside of a loop", t.text)
		}
		if t.text == "break" {
			return breakStmt{}
		}
		return continueStmt{}
	case "autoescape", "block", "extends", "from", "import", "include", "print":
		fail("NotSupported", "the tag %q", t.text)
	}
	fail("TemplateSyntaxError", "encountered unknown tag %q", t.text)
	return nil
}

func (p *parser) ifStmt(line int) stmt {
	s := &ifStmt{line: line}
	for {
		b := branch{line: line, test: p.tuple(tupleOptions{noConditional: true})}
		var end string
		b.body, end = p.block("elif", "else", "endif")
		s.branches = append(s.branches, b)
		switch end {
		case "else":
			body, _ := p.block("endif")
			s.branches = append(s.branches, branch{body: body})
			return s
		case "endif":
			return s
		}
		line = p.peek().line
	}
}

func (p *parser) forStmt(line int) stmt {
	s := &forStmt{line: line}
	s.target = p.target(tupleOptions{simple: true, end: "in"})
	if !p.skipName("in") {
		fail("TemplateSyntaxError", "expected 'in', found %s", p.peek().describe())
	}
	s.items = p.tuple(tupleOptions{noConditional: true, end: "recursive"})
	if p.skipName("if") {
		s.condition = p.expression()
	}
	if p.isName("recursive") {
		fail("NotSupported", "a loop that is recursive")
	}
	p.loops++
	body, end := p.block("endfor", "else")
	p.loops--
	s.body = body
	if end == "else" {
		s.otherwise, _ = p.block("endfor")
	}
	return s
}

func (p *parser) setStmt(line int) stmt {
	target := p.target(tupleOptions{simple: true, namespace: true})
	if p.skip("=") {
		return &setStmt{target, p.tuple(tupleOptions{}), line}
	}
	var f expr
	if p.is("|") {
		f = p.filters(nil, false)
	}
	body, _ := p.block("endset")
	return &setBlock{target, f, body, line}
}

func (p *parser) with(line int) stmt {
	s := &withStmt{line: line}
	for !p.is(tokenBlockEnd) {
		if len(s.targets) > 0 {
			p.expect(",")
		}
		s.targets = append(s.targets, p.target(tupleOptions{simple: true}))
		p.expect("=")
		s.values = append(s.values, p.expression())
	}
	s.body, _ = p.block("endwith")
	return s
}

func (p *parser) macro(line int) stmt {
	m := &macroStmt{name: p.assignable(p.expect(tokenName).text), line: line}
	p.names = append(p.names, map[string]bool{})
	p.signature(m)
	p.macroBody(m, "endmacro")
	return m
}

// callBlock reads a call of a macro with a body, which the macro can call as caller.
func (p *parser) callBlock(line int) stmt {
	m := &macroStmt{name: "caller", line: line}
	p.names = append(p.names, map[string]bool{})
	if p.is("(") {
		p.signature(m)
	}
	c, ok := p.expression().(*call)
	if !ok {
		fail("TemplateSyntaxError", "expected call")
	}
	p.macroBody(m, "endcall")
	return &callBlock{m, c, line}
}

func (p *parser) signature(m *macroStmt) {
	p.expect("(")
	for !p.is(")") {
		if len(m.params) > 0 {
			p.expect(",")
		}
		m.params = append(m.params, p.assignable(p.expect(tokenName).text))
		if p.skip("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if m.defaults != nil {
			fail("TemplateSyntaxError", "a parameter without default follows one that has a default")
		}
	}
	p.next()
}

func (p *parser) macroBody(m *macroStmt, end string) {
	loops := p.loops
	p.loops = 0 // its body is a function in jinja2, so an outer loop does not count
	m.body, _ = p.block(end)
	p.loops = loops
	m.uses = p.names[len(p.names)-1]
	p.names = p.names[:len(p.names)-1]
	for name := range m.uses {
		p.names[len(p.names)-1][name] = true
	}
}

// assignable refuses the names of constants.
func (p *parser) assignable(s string) string {
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, s) {
		fail("TemplateSyntaxError", "can't assign to %q", s)
	}
	return s
}

// target reads the target of an assignment: a name, several names, or an attribute of a namespace.
func (p *parser) target(o tupleOptions) expr {
	t := p.tuple(o)
	p.checkTarget(t)
	return t
}

func (p *parser) checkTarget(t expr) {
	switch t := t.(type) {
	case *name:
		p.assignable(t.name)
	case *nsRef:
	case *tuple:
		for _, item := range t.items {
			p.checkTarget(item)
		}
	default:
		fail("TemplateSyntaxError", "can't assign to what is no name")
	}
}

// tupleOptions holds the options of jinja2's parse_tuple.
type tupleOptions struct {
	simple        bool   // only names and literals
	noConditional bool   // no x if y else z
	namespace     bool   // names may have an attribute
	parentheses   bool   // the tuple may be empty
	end           string // a name that ends it
}

// tuple reads an expression, or several with commas between them.
func (p *parser) tuple(o tupleOptions) expr {
	defer p.nest()()
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			p.expect(",")
		}
		if p.is(tokenPrintEnd) || p.is(tokenBlockEnd) || p.is(")") || o.end != "" && p.isName(o.end) {
			break
		}
		switch {
		case o.simple:
			items = append(items, p.primary(o.namespace))
		case o.noConditional:
			items = append(items, p.or())
		default:
			items = append(items, p.expression())
		}
		if !p.is(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !o.parentheses {
			fail("TemplateSyntaxError", "expected an expression, got %s", p.peek().describe())
		}
	}
	return &tuple{items}
}

// expression is parse_expression of jinja2. The functions that follow correspond to jinja2's, from
// the operators that bind least to those that bind most.
func (p *parser) expression() expr {
	defer p.nest()()
	e := p.or()
	for p.skipName("if") {
		c := &conditional{test: p.or(), yes: e}
		if p.skipName("else") {
			c.no = p.expression()
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	left := p.and()
	for p.skipName("or") {
		left = &logical{false, left, p.and()}
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for p.skipName("and") {
		left = &logical{true, left, p.not()}
	}
	return left
}

func (p *parser) not() expr {
	if p.skipName("not") {
		defer p.nest()()
		return &not{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	var ops []operand
	for {
		switch t := p.peek(); {
		case slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.kind):
			p.next()
			ops = append(ops, operand{t.kind, p.sum()})
		case p.skipName("in"):
			ops = append(ops, operand{"in", p.sum()})
		case p.isName("not") && p.look().kind == tokenName && p.look().text == "in":
			p.next()
			p.next()
			ops = append(ops, operand{"not in", p.sum()})
		case ops == nil:
			return first
		default:
			return &compare{first, ops}
		}
	}
}

// chain reads operands with left-associative operators between them.
func (p *parser) chain(operand func() expr, operators ...string) expr {
	left := operand()
	for slices.Contains(operators, p.peek().kind) {
		op := p.next().kind
		left = &binary{op, left, operand()}
	}
	return left
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() expr {
	items := []expr{p.product()}
	for p.skip("~") {
		items = append(items, p.product())
	}
	if len(items) == 1 {
		return items[0]
	}
	return &concat{items}
}

func (p *parser) product() expr { return p.chain(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr {
	return p.chain(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(withFilters bool) expr {
	var e expr
	if t := p.peek(); t.kind == "-" || t.kind == "+" {
		defer p.nest()()
		p.next()
		e = &unary{t.kind, p.unary(false)}
	} else {
		e = p.primary(false)
	}
	e = p.postfix(e)
	if withFilters {
		e = p.filtered(e)
	}
	return e
}

func (p *parser) primary(namespace bool) expr {
	switch t := p.next(); t.kind {
	case tokenName:
		switch t.text {
		case "true", "True":
			return &constant{true}
		case "false", "False":
			return &constant{false}
		case "none", "None":
			return &constant{nil}
		}
		if namespace && p.skip(".") {
			return &nsRef{t.text, p.expect(tokenName).text}
		}
		p.names[len(p.names)-1][t.text] = true
		return &name{t.text}
	case tokenString:
		s := t.text
		for p.is(tokenString) {
			s += p.next().text
		}
		return &constant{s}
	case tokenInteger, tokenFloat:
		return &constant{t.num}
	case "(":
		e := p.tuple(tupleOptions{parentheses: true})
		p.expect(")")
		return e
	case "[":
		return &list{p.items("]")}
	case "{":
		return p.dict()
	default:
		fail("TemplateSyntaxError", "unexpected %s", t.describe())
		return nil
	}
}

// items reads expressions with commas between them, up to a bracket.
func (p *parser) items(end string) (items []expr) {
	for !p.is(end) {
		if items != nil {
			p.expect(",")
		}
		if p.is(end) {
			break
		}
		items = append(items, p.expression())
	}
	p.next()
	return items
}

func (p *parser) dict() expr {
	d := &dict{}
	for !p.is("}") {
		if d.keys != nil {
			p.expect(",")
		}
		if p.is("}") {
			break
		}
		d.keys = append(d.keys, p.expression())
		p.expect(":")
		d.values = append(d.values, p.expression())
	}
	p.next()
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.is(".") || p.is("["):
			e = p.subscript(e)
		case p.is("("):
			e = &call{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) filtered(e expr) expr {
	for {
		switch {
		case p.is("|"):
			e = p.filters(e, false)
		case p.isName("is"):
			e = p.test(e)
		case p.is("("):
			e = &call{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(of expr) expr {
	if p.next().kind == "." {
		t := p.next()
		switch t.kind {
		case tokenName:
			return &getAttr{of, t.text}
		case tokenInteger:
			return &getItem{of, &constant{t.num}}
		}
		fail("TemplateSyntaxError", "expected name or number, found %s", t.describe())
	}
	var indices []expr
	for !p.is("]") {
		if indices != nil {
			p.expect(",")
		}
		indices = append(indices, p.index())
	}
	p.next()
	if len(indices) == 1 {
		return &getItem{of, indices[0]}
	}
	for _, i := range indices {
		if _, ok := i.(*slice); ok {
			fail("NotSupported", "an index of several slices")
		}
	}
	return &getItem{of, &tuple{indices}}
}

// index reads an index or a slice.
func (p *parser) index() expr {
	var parts [3]expr
	if !p.is(":") {
		if parts[0] = p.expression(); !p.is(":") {
			return parts[0]
		}
	}
	for i := 1; i < 3 && p.skip(":"); i++ {
		if !p.is(":") && !p.is("]") && !p.is(",") {
			parts[i] = p.expression()
		}
	}
	return &slice{parts[0], parts[1], parts[2]}
}

func (p *parser) arguments() (a arguments) {
	p.expect("(")
	wrong := func() { fail("TemplateSyntaxError", "invalid syntax for function call expression") }
	for first := true; !p.is(")"); first = false {
		if !first {
			p.expect(",")
			if p.is(")") {
				break
			}
		}
		switch {
		case p.skip("*"):
			if a.star != nil || a.starStar != nil {
				wrong()
			}
			a.star = p.expression()
		case p.skip("**"):
			if a.starStar != nil {
				wrong()
			}
			a.starStar = p.expression()
		case p.is(tokenName) && p.look().kind == "=":
			if a.starStar != nil {
				wrong()
			}
			key := p.next().text
			p.next()
			a.keywords = append(a.keywords, keyword{key, p.expression()})
		default:
			if a.star != nil || a.starStar != nil || a.keywords != nil {
				wrong()
			}
			a.positional = append(a.positional, p.expression())
		}
	}
	p.next()
	return a
}

// dotted reads the name of a filter or a test.
func (p *parser) dotted() string {
	s := p.expect(tokenName).text
	for p.skip(".") {
		s += "." + p.expect(tokenName).text
	}
	return s
}

// filters reads filters after |. inline is for the tag filter, whose first filter follows no |.
func (p *parser) filters(of expr, inline bool) expr {
	for inline || p.is("|") {
		if !inline {
			p.next()
		}
		f := &filter{of: of, name: p.dotted()}
		if p.is("(") {
			f.args = p.arguments()
		}
		of, inline = f, false
	}
	return of
}

func (p *parser) test(of expr) expr {
	p.next()
	negated := p.skipName("not")
	t := &test{of: of, name: p.dotted()}
	switch {
	case p.is("("):
		t.args = p.arguments()
	case slices.Contains([]string{tokenName, tokenString, tokenInteger, tokenFloat, "[", "{"}, p.peek().kind) &&
		!p.isName("else", "or", "and"):
		if p.isName("is") {
			fail("TemplateSyntaxError", "you cannot chain multiple tests with is")
		}
		t.args.positional = []expr{p.postfix(p.primary(false))}
	}
	if negated {
		return &not{t}
	}
	return t
}
