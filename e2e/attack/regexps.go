package main

import (
	"context"
	"strings"
)

// bombs are regular expressions that are short and compile to much, or are long.
var bombs = []struct{ name, re string }{
	{"three repeats", "((x{100}){100}){100}"},
	{"two repeats", "(x{1000}){1000}"},
	{"a thousand letters, repeated", "([a-z]{1000})+"},
	{"backtracking", "(a+)+$"},
	{"classes", strings.Repeat(`[\p{L}\p{N}]{50}`, 20)},
	{"100 000 alternatives", "a" + strings.Repeat("|b", 100_000)},
	{"nested groups", nested("(", "a", ")?", 900)},
	{"groups beyond the limit", nested("(", "a", ")", 5000)},
	{"1 MB of letters", strings.Repeat("a.", 500_000)},
}

var regexpAttacks = []attack{{
	name: "regular expressions", what: "asks for matchers and label_replace patterns that compile to a hundred megabytes, or are long",
	holds: "answered or refused in 1.5 times Prometheus's time and 10 ms, or at the deadline",
	run: func(ctx context.Context, e *env) (v verdict) {
		var all []deepQuery
		for _, b := range bombs {
			re := strings.ReplaceAll(b.re, `\`, `\\`)
			// A Prometheus compiles these, too, with all the memory that it takes.
			deadly := strings.Contains(b.name, "repeats")
			all = append(all,
				deepQuery{name: b.name + " in a matcher", text: `up{job=~"` + re + `"}`, deadly: deadly},
				deepQuery{name: b.name + " in ten matchers", text: `up{` + strings.Repeat(`job=~"`+re+`",`, 10) + `}`, deadly: true},
				deepQuery{name: b.name + " in label_replace", text: `label_replace(up,"a","$1","job","` + re + `")`, deadly: deadly},
			)
		}
		return askDeep(ctx, e, all, "/api/v1/query")
	},
}}
