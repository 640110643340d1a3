package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// odd writes expressions over the series of oddStorage: every function and operator that the
// parser knows, by the types of its arguments, and every way to move a selector in time.
type odd struct {
	r         *rand.Rand
	base      int64 // of the data's times, in ms
	functions map[parser.ValueType][]*parser.Function
}

func newOdd(r *rand.Rand, base int64) *odd {
	g := &odd{r: r, base: base, functions: map[parser.ValueType][]*parser.Function{}}
	for _, name := range slices.Sorted(maps.Keys(parser.Functions)) {
		f := parser.Functions[name]
		g.functions[f.ReturnType] = append(g.functions[f.ReturnType], f)
	}
	return g
}

func (g *odd) pick(s ...string) string { return s[g.r.IntN(len(s))] }

// chance is true once in n times.
func (g *odd) chance(n int) bool { return g.r.IntN(n) == 0 }

func (g *odd) matcher() string {
	return g.pick(`job=""`, `job=~""`, `job=~".*"`, `job!=""`, `job!~""`, `nope=""`, `nope!=""`, `nope=~".*"`, `nope!~".+"`,
		`case=~"(?i)foo"`, `case=~"(?i:f)oo"`, `case!~"(?i)FOO|bar"`, `case=~"(?i)[k]"`, `case=~"foo|bar|"`, `case=~"(?s).+"`, `case=~"f.o"`,
		`case=~"foo.*|.*bar"`, `case=~"[^f].*"`, `case=~"a\nb"`, `case=~"a.b"`, `case="a\nb"`, `case!="foo"`, `"ü.x"="1"`, `"ü.x"=~"[12]"`,
		`job="j0"`, `job=~"j[01]"`, `job!~"j[12]"`, `instance=~"i0|i1"`, `instance!="i1"`, `le=~"1|\\+Inf"`, `le!=""`, `__name__!="g"`, `__name__=~"g|c_total"`)
}

func (g *odd) selector() string {
	names := []string{"c_total", "c_total", "g", "g", "big", "mix", "nh", "nhcb", "gh", "lat_bucket", "lat", "sparse", "target_info", "late", "gone"}
	var ms []string
	for g.chance(3) {
		ms = append(ms, g.matcher())
	}
	if g.chance(8) {
		ms = append(ms, g.pick(`"http.latency"`, `"http.latency"`, `__name__=~"c_total|g"`, `__name__=~".*h"`, `__name__=~"(?i)G|NH"`, `__name__=""`, `__name__=~"|g"`, `job="j0"`, `__name__=~"nh|g|mix"`))
		g.r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
		return "{" + strings.Join(ms, ",") + "}"
	}
	name := g.pick(names...)
	if len(ms) == 0 {
		return name
	}
	return name + "{" + strings.Join(ms, ",") + "}"
}

// duration writes a length of time, mostly an odd one.
func (g *odd) duration() string {
	switch g.r.IntN(12) {
	case 0:
		return g.pick("step()", "2*step()", "step()+1ms", "max_of(step(),1m)", "range()", "min_of(range(),7m)", "1m*2", "5m/3", "2^3", "(1m+7s)", "90s%1m", "+30s", "max_of(1s, range()/7)")
	case 1:
		return strconv.Itoa(1+g.r.IntN(5000)) + "ms"
	case 2:
		return g.pick("0.5", "1.001", "61", "300", "0x10", "1e2", "1m30s1ms")
	}
	return g.pick("1ms", "999ms", "1s", "15s", "15s", "29s999ms", "30s", "30s1ms", "1m", "1m", "97s", "5m", "5m", "13m", "20m", "2h", "1d")
}

func (g *odd) modifiers() string {
	s := ""
	if g.chance(4) {
		at := g.base/1000 + g.r.Int64N(3000) - 200
		s += " @ " + g.pick("start()", "end()", strconv.FormatInt(at, 10), fmt.Sprintf("%d.%03d", at, g.r.IntN(1000)), "-1", "0", "1e9", "1e-3")
	}
	if g.chance(4) {
		o := " offset " + g.pick("", "-") + g.duration()
		if g.chance(2) {
			s += o
		} else {
			s = o + s
		}
	}
	return s
}

func (g *odd) matrix(depth int) string {
	if depth > 0 && g.chance(3) {
		in := g.vector(depth - 1)
		if g.chance(8) {
			in = g.scalar(depth - 1)
		}
		return "(" + in + ")[" + g.pick("1m", "5m", "5m", "7m", "13m", "97s", "1s", "20m", "2h", g.duration()) + ":" + g.pick("", "1m", "30s", "17s", "7s", "61001ms", "10m", "1m30s", "step()") + "]" + g.modifiers()
	}
	s := g.selector() + "[" + g.duration() + "]"
	if g.chance(10) {
		return s + g.pick(" anchored", " smoothed") + g.modifiers()
	}
	return s + g.modifiers()
}

func (g *odd) number() string {
	return g.pick("0", "-0", "1", "2", "3", "-1", "0.5", "0.9", "0.1", "1e308", "-1e308", "5e-324", "9007199254740993", "9223372036854775807", "-9223372036854775808", "1e19", "NaN", "Inf", "-Inf", "0x7fff", "1m", "1.5", "2.5", "10", "100")
}

func (g *odd) scalar(depth int) string {
	if depth <= 0 || g.chance(3) {
		return g.pick(g.number(), g.number(), "time()", "pi()", "step()", "start()", "end()", "range()", "(time() % 7 / 7)")
	}
	switch g.r.IntN(4) {
	case 0:
		return "scalar(" + g.vector(depth-1) + ")"
	case 1:
		return g.pick("min_of", "max_of") + "(" + g.scalar(depth-1) + ", " + g.scalar(depth-1) + ")"
	case 2:
		return g.pick("-", "+", "- -") + "(" + g.scalar(depth-1) + ")"
	}
	return "(" + g.scalar(depth-1) + " " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "> bool", "== bool", "!= bool") + " " + g.scalar(depth-1) + ")"
}

func (g *odd) label() string {
	return g.pick("job", "job", "instance", "instance", "case", "le", "__name__", "nope", `"ü.x"`, "version", "__type__", "__unit__")
}

func (g *odd) labels() string {
	var ls []string
	for g.chance(2) {
		ls = append(ls, g.label())
	}
	return "(" + strings.Join(ls, ", ") + ")"
}

func (g *odd) grouping() string {
	if g.chance(3) {
		return ""
	}
	return " " + g.pick("by", "by", "without") + " " + g.labels() + " "
}

// call writes a call of f.
func (g *odd) call(f *parser.Function, depth int) string {
	var args []string
	add := func(t parser.ValueType) {
		switch t {
		case parser.ValueTypeMatrix:
			args = append(args, g.matrix(depth))
		case parser.ValueTypeScalar:
			args = append(args, g.scalar(g.r.IntN(2)))
		case parser.ValueTypeString:
			args = append(args, g.text(f.Name, len(args)))
		default:
			args = append(args, g.vector(depth-1))
		}
	}
	n := len(f.ArgTypes)
	for i, t := range f.ArgTypes {
		if f.Variadic != 0 && i == n-1 {
			more := g.r.IntN(2)
			if f.Variadic < 0 || f.Variadic > 1 {
				more = g.r.IntN(4)
				if f.Variadic > 0 {
					more = min(more, f.Variadic)
				}
			}
			if f.Name == "histogram_quantiles" {
				more = 1 + g.r.IntN(3)
			}
			for range more {
				add(t)
			}
			continue
		}
		add(t)
	}
	if f.Name == "info" && len(args) > 1 {
		args[1] = g.pick(`{version=~".+"}`, `{__name__="target_info"}`, `{__name__=~".*_info",version!=""}`, `{nope="1"}`, `{version=~"v.*"}`, `{}`)
	}
	return f.Name + "(" + strings.Join(args, ", ") + ")"
}

// text writes argument i of a function.
func (g *odd) text(function string, i int) string {
	switch {
	case function == "label_replace" && i == 1, function == "label_join" && i == 1, function == "histogram_quantiles":
		return strconv.Quote(g.pick("job", "new", "new", "instance", "__name__", "__type__", "ü.x", "", "le", "case"))
	case function == "label_replace" && i == 2:
		return strconv.Quote(g.pick("$1", "$0", "${1}y", "", "x", "$nope", "$$", "\n"))
	case function == "label_replace" && i == 4:
		return strconv.Quote(g.pick("(.*)", "(.+)", "j(.)", "(?i)(FOO)", "", "(?s)(.*)b", "i([01])", "x", "(?P<nope>.)."))
	case function == "label_join" && i == 2:
		return strconv.Quote(g.pick("", "-", "\n", "ü"))
	}
	return strconv.Quote(strings.Trim(g.label(), `"`))
}

func (g *odd) matching() string {
	if g.chance(3) {
		return g.pick("", " on (job, instance) ", " ignoring (case) ")
	}
	s := " " + g.pick("on", "on", "ignoring") + " " + g.labels()
	if g.chance(2) {
		s += " " + g.pick("group_left", "group_right") + " " + g.pick("", "()", g.labels())
	}
	return s + g.pick("", "", "", " fill (0)", " fill_left (-0)", " fill_right (NaN)", " fill (1e308)", " fill (7)")
}

// vector writes an expression that yields an instant vector.
func (g *odd) vector(depth int) string {
	if depth <= 0 {
		if g.chance(4) {
			f := g.functions[parser.ValueTypeVector][g.r.IntN(len(g.functions[parser.ValueTypeVector]))]
			if len(f.ArgTypes) > 0 && slices.Contains(f.ArgTypes, parser.ValueTypeMatrix) {
				return g.call(f, 0)
			}
		}
		if g.chance(12) {
			return g.selector() + g.pick(" smoothed", " anchored") + g.modifiers()
		}
		return g.selector() + g.modifiers()
	}
	in := func() string { return g.vector(depth - 1 - g.r.IntN(2)) }
	switch g.r.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		fs := g.functions[parser.ValueTypeVector]
		return g.call(fs[g.r.IntN(len(fs))], depth)
	case 6, 7, 8:
		return g.pick("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar") + g.grouping() + "(" + in() + ")"
	case 9:
		op := g.pick("topk", "bottomk", "limitk", "limit_ratio", "quantile", "count_values")
		param := g.pick(g.number(), g.scalar(1), "2", "0.5")
		if op == "count_values" {
			param = g.pick(`"v"`, `"job"`, `"ü.x"`, `"__name__"`)
		}
		return op + g.grouping() + "(" + param + ", " + in() + ")"
	case 10, 11:
		return "(" + in() + ") " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "== bool", "> bool", "</", ">/") + g.matching() + " (" + in() + ")"
	case 12:
		m := g.pick("", " on "+g.labels(), " ignoring "+g.labels())
		return "(" + in() + ") " + g.pick("and", "or", "unless") + m + " (" + in() + ")"
	case 13:
		return "(" + in() + ") " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "==", "> bool", "<", "</", ">/") + " " + g.scalar(depth-1)
	case 14:
		return g.scalar(depth-1) + " " + g.pick("+", "-", "*", "/", "%", "^", ">", "!= bool") + " (" + in() + ")"
	}
	return g.pick("-", "+", "", "- -") + "(" + in() + ")"
}

// query writes a query of any type.
func (g *odd) query() string {
	switch g.r.IntN(40) {
	case 0:
		return g.scalar(3)
	case 1:
		return g.matrix(2)
	case 2:
		return g.pick(`"text"`, `"ü\n"`)
	}
	return g.vector(1 + g.r.IntN(4))
}
