package jinja

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// render renders a template without variables, within a fraction of the cost limit.
func render(source string, part int) error {
	t, err := Parse(source)
	if err == nil {
		_, err = t.render(NewDict(), nil, budget{fuel: maxFuel / part, memory: maxMemory})
	}
	return err
}

// TestHostileTemplatesEnd runs templates that would otherwise never end, or exhaust the memory or
// the stack.
func TestHostileTemplatesEnd(t *testing.T) {
	loops := strings.Repeat("{% for i in range(100000) %}", 5) + "{{ i }}" + strings.Repeat("{% endfor %}", 5)
	double := "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = "
	tree := "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
	deep := "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"
	wide := "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}"
	for name, c := range map[string][2]string{
		"loops":       {loops, "LimitError"},
		"empty loops": {strings.ReplaceAll(loops, "{{ i }}", ""), "LimitError"},
		"recursion":   {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"},
		"two of them": {"{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
			"RecursionError"},
		"breadth":      {"{% macro f(n) %}{% if n %}{{ f(n-1) ~ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}", "LimitError"},
		"doubling":     {double + "ns.x ~ ns.x %}{% endfor %}", "LimitError"},
		"sum":          {double + "ns.x + ns.x %}{% endfor %}", "LimitError"},
		"lists":        {double + "(ns.x | list) + (ns.x | list) %}{% endfor %}", "LimitError"},
		"replace":      {double + "ns.x | replace('a', 'aa') %}{% endfor %}", "LimitError"},
		"join":         {double + "ns.x | join('aa') %}{% endfor %}", "LimitError"},
		"escape":       {double + "ns.x | replace('a', '<') | forceescape | string %}{% endfor %}{{ ns.x }}", "LimitError"},
		"repeat":       {"{{ 'a' * 9000000000000000000 }}", "LimitError"},
		"repeat lists": {"{{ [1, 2] * 9000000000000000000 }}", "LimitError"},
		"center":       {"{{ 'a'.center(9000000000000000000) }}", "LimitError"},
		"zfill":        {"{{ 'a'.zfill(900000000000) }}", "LimitError"},
		"indent":       {"{{ 'a' | indent(900000000000, true) }}", "LimitError"},
		"power":        {"{{ 9 ** 9 ** 9 }}", "NotSupported"},
		"power of one": {"{{ 1 ** 9000000000000000000 ~ (-1) ** 9000000000000000001 }}", ""},
		"range":        {"{{ range(9000000000000000000) }}", "OverflowError"},
		"batch":        {"{{ [1] | batch(900000000000, 1) | list }}", "ValueError"},
		"format":       {"{{ '%999999999s' % 1 }}", "NotSupported"},
		"tree":         {tree + "{{ ns.x }}", "LimitError"},
		"tree as JSON": {tree + "{{ ns.x | tojson }}", "LimitError"},
		"equal trees":  {tree + "{% set a = ns.x %}" + tree + "{{ a == ns.x }}", "LimitError"},
		"deep":         {deep + "{{ ns.x }}", "RecursionError"},
		"deep as JSON": {deep + "{{ ns.x | tojson }}", "RecursionError"},
		"equal depths": {deep + "{% set a = ns.x %}" + deep + "{{ a == ns.x }}", "RecursionError"},
		"lengths":      {wide + "{% if s|length %}{% endif %}{% endfor %}", "LimitError"},
		"indices":      {wide + "{% if s[-1] %}{% endif %}{% endfor %}", "LimitError"},
		"finds":        {wide + "{% if 'b' in s %}{% endif %}{% endfor %}", "LimitError"},
		"methods":      {wide + "{% if s.find('b') %}{% endif %}{% endfor %}", "LimitError"},
		"sets":         {wide + "{% if s.strip(s) %}{% endif %}{% endfor %}", "LimitError"},
		"parentheses":  {"{{ " + strings.Repeat("(", 100000) + strings.Repeat(")", 100000) + " }}", "LimitError"},
		"brackets":     {"{{ " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + " }}", "LimitError"},
		"not":          {"{{ " + strings.Repeat("not ", 100000) + "1 }}", "LimitError"},
		"minus":        {"{{ " + strings.Repeat("-", 100000) + "1 }}", "LimitError"},
		"ifs":          {strings.Repeat("{% if 1 %}", 100000), "LimitError"},
		"chain":        {"{{ 1" + strings.Repeat(" + 1", 100000) + " }}", "RecursionError"},
		"attributes":   {"{{ x" + strings.Repeat(".x", 100000) + " }}", "RecursionError"},
		"filters":      {"{{ 1" + strings.Repeat("|list", 100000) + " }}", "RecursionError"},
		"conditions":   {"{{ 1" + strings.Repeat(" if 1", 100000) + " }}", "RecursionError"},
		"size":         {strings.Repeat("a", maxSource+1), "LimitError"},
		"tags":         {strings.Repeat("{", maxSource), "LimitError"},
		"comments":     {strings.Repeat("{#", maxSource/2), "TemplateSyntaxError"},
		"raw":          {strings.Repeat("{%", maxSource/2), "TemplateSyntaxError"},
		"end of raw":   {"{% raw %}" + strings.Repeat("{%      ", 100000), "TemplateSyntaxError"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			part := 20
			if name == "loops" {
				part = 4
			}
			err := render(c[0], part)
			if c[1] == "" {
				require.NoError(t, err)
			} else {
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c[1], e.Kind, "%.300v", err)
			}
			assert.Less(t, time.Since(start), time.Minute)
		})
	}
}

// TestErrorsSayWhereAndWhat checks that errors name the unknown item and its position.
func TestErrorsSayWhereAndWhat(t *testing.T) {
	for source, want := range map[string]string{
		"a\n\n{{ x.y }}": "line 3: UndefinedError: 'x' is undefined",
		"a\n{% if true %}\n{{ 1 + 'a' }}{% endif %}": "line 3: TypeError: unsupported operand",
		"{{ 'x' | wordcount }}":                      `line 1: NotSupported: the filter "wordcount"`,
		"{{ 'x' | nope }}":                           "No filter named 'nope'.",
		"{{ 'x' is nope }}":                          "No test named 'nope'.",
		"\n{% include 'x' %}":                        `line 2: NotSupported: the tag "include"`,
		"{% nope %}":                                 `TemplateSyntaxError: encountered unknown tag "nope"`,
		"{{ 'x'.encode('utf-8') }}":                  `NotSupported: the attribute "encode" of a str`,
		"{{ lipsum() }}":                             `NotSupported: the function "lipsum"`,
		"{{ [].append(1) }}":                         "SecurityError: access to attribute 'append' of 'list' object is",
		"{{ raise_exception('told so') }}":           "TemplateError: told so",
		"{{ 9223372036854775807 + 1 }}":              "NotSupported: an integer that does not fit into 64 bits",
		"{{ 92233720368547758070 }}":                 "NotSupported: the integer 92233720368547758070",
		"{{ strftime_now('%Q') }}":                   "NotSupported: %Q in the format of strftime_now",
		"{{ range }}":                                "NotSupported: a function as text",
		"{% for i in [1] recursive %}{% endfor %}":   "NotSupported: a loop that is recursive",
	} {
		err := render(source, 1)
		require.ErrorContains(t, err, want, "%s", source)
	}
}
