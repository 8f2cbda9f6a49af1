package jinja

// expr is an expression: one of the types below.
type expr any

type (
	constant struct{ value Value }
	name     struct{ name string }
	nsRef    struct{ name, attr string } // only as the target of an assignment
	tuple    struct{ items []expr }
	list     struct{ items []expr }
	dict     struct{ keys, values []expr }
	getAttr  struct {
		of   expr
		name string
	}
	getItem struct{ of, index expr }
	slice   struct{ start, stop, step expr } // nil: none; only as the index of getItem
	call    struct {
		of   expr
		args arguments
	}
	filter struct {
		of   expr // nil: the text of the block
		name string
		args arguments
	}
	test struct {
		of   expr
		name string
		args arguments
	}
	not   struct{ of expr }
	unary struct {
		op string
		of expr
	}
	binary struct {
		op          string
		left, right expr
	}
	concat  struct{ items []expr }
	logical struct {
		and         bool
		left, right expr
	}
	compare struct {
		first expr
		ops   []operand
	}
	operand struct {
		op string
		of expr
	}
	conditional struct{ test, yes, no expr } // no: nil where there is no else
)

// arguments holds the arguments of a call, a filter or a test.
type arguments struct {
	positional []expr
	keywords   []keyword
	star       expr // *args
	starStar   expr // **kwargs
}

type keyword struct {
	name  string
	value expr
}

// stmt is a statement: one of the types below.
type stmt any

type (
	text   struct{ text string }
	output struct {
		of   expr
		line int
	}
	ifStmt struct {
		branches []branch
		line     int
	}
	branch struct {
		test expr // nil: else
		body []stmt
		line int
	}
	forStmt struct {
		target    expr
		items     expr
		condition expr // nil: none
		body      []stmt
		otherwise []stmt
		line      int
	}
	setStmt struct {
		target expr
		value  expr
		line   int
	}
	setBlock struct {
		target expr
		filter expr // nil: none
		body   []stmt
		line   int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     []stmt
		uses     map[string]bool // the names that it looks up, such as varargs, kwargs and caller
		line     int
	}
	callBlock struct { // its body is the macro caller
		caller *macroStmt
		call   *call
		line   int
	}
	filterBlock struct {
		filter expr
		body   []stmt
		line   int
	}
	withStmt struct {
		targets, values []expr
		body            []stmt
		line            int
	}
	generation   struct{ body []stmt }
	breakStmt    struct{}
	continueStmt struct{}
)
