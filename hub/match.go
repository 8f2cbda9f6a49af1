package hub

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// patterns is a compiled list of wildcards.
type patterns []*regexp.Regexp

// compilePatterns compiles wildcards as Python's client interprets them: by fnmatch, where * also
// matches slashes, and "folder/" means everything below it.
func compilePatterns(globs []string) (patterns, error) {
	var out patterns
	for _, g := range globs {
		g = strings.ReplaceAll(g, `\`, "/")
		if strings.HasSuffix(g, "/") {
			g += "*"
		}
		compiled, err := regexp.Compile(translate(g))
		if err != nil {
			return nil, fmt.Errorf("hub: the pattern %.200q cannot be read: %w", g, ErrName)
		}
		out = append(out, compiled)
	}
	return out, nil
}

func (p patterns) match(name string) bool {
	name = strings.ReplaceAll(name, `\`, "/")
	return slices.ContainsFunc(p, func(r *regexp.Regexp) bool { return r.MatchString(name) })
}

// filter selects files by Allow and Ignore of a call.
type filter struct{ allow, ignore patterns }

func newFilter(allow, ignore []string) (filter, error) {
	a, err := compilePatterns(allow)
	if err != nil {
		return filter{}, err
	}
	i, err := compilePatterns(ignore)
	return filter{a, i}, err
}

func (f filter) passes(name string) bool {
	return (f.allow == nil || f.allow.match(name)) && !f.ignore.match(name)
}

// translate turns an fnmatch pattern into a regular expression, by the rules of Python's
// fnmatch.translate.
func translate(glob string) string {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	runes := []rune(glob)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '*':
			out.WriteString(".*")
		case '?':
			out.WriteByte('.')
		case '[':
			end := i + 1
			if end < len(runes) && runes[end] == '!' {
				end++
			}
			if end < len(runes) && runes[end] == ']' {
				end++
			}
			for end < len(runes) && runes[end] != ']' {
				end++
			}
			if end >= len(runes) {
				out.WriteString(`\[`) // without a closing bracket, it is literal
				continue
			}
			out.WriteString(class(runes[i+1 : end]))
			i = end
		default:
			out.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	out.WriteString(`\z`)
	return out.String()
}

// class turns the inside of a bracket expression into a regular expression. A reversed range
// matches nothing.
func class(inside []rune) string {
	negated := len(inside) > 0 && inside[0] == '!'
	if negated {
		inside = inside[1:]
	}
	var members strings.Builder
	for i := 0; i < len(inside); i++ {
		low, high := inside[i], inside[i]
		if i+2 < len(inside) && inside[i+1] == '-' {
			high = inside[i+2]
			i += 2
		}
		if low <= high {
			fmt.Fprintf(&members, `\x{%x}-\x{%x}`, low, high)
		}
	}
	switch {
	case members.Len() == 0 && negated:
		return "."
	case members.Len() == 0:
		return `[^\x{0}-\x{10ffff}]`
	case negated:
		return "[^" + members.String() + "]"
	}
	return "[" + members.String() + "]"
}
