package planner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
)

func ExampleLimits_Check() {
	fmt.Println(Limits{Depth: 3}.Check(`sum(rate(x[5m]))`))
	fmt.Println(Limits{Length: 10}.Check(`sum(rate(x[5m]))`))
	fmt.Println(Limits{RegexpSize: 300}.Check(`x{job=~"[ab]{400}"}`))
	// Output:
	// the query is nested 4 levels deep or more, operators in a row included; the most that --query.max-depth allows is 3
	// the query is 16 bytes long; the most that --query.max-length allows is 10
	// the regular expressions of the query compile to about 301 instructions or more; the most that --query.max-regexp-size allows is 300
}

// treeDepth is the number of levels of a syntax tree.
func treeDepth(n parser.Node) int {
	below := 0
	for child := range parser.ChildrenIter(n) {
		below = max(below, treeDepth(child))
	}
	return below + 1
}

// TestDepth: what is computed of the text is at least the depth of the tree, and close to it.
func TestDepth(t *testing.T) {
	for query, want := range map[string]int{
		`x`: 1, `(x)`: 2, `sum(x)`: 2, `sum by (a, b) (x)`: 2, `sum(x) by (a)`: 2, `x[5m:1m]`: 2, `-x`: 2, `- - -x`: 4, `a + b + c`: 3,
		`max_over_time(x[5m])`: 3, `max_over_time(x[5m:1m])`: 3, `1 - (2 - (3))`: 5, `x{a="(((((",b=~"((()))"}`: 1, `"((((("`: 1, "x # (((\n": 1,
		`label_join(a + a, "((", "a", "b")`: 3, `clamp(a + a, 1 + 1, 2 + 2)`: 3, `a and b or c unless d`: 4, `x offset -5m`: 2, `2 ^ -3 ^ -4`: 5,
		`a ^ on () -b ^ on () -c`: 6, `rate(x[5m + 5m] offset (1m + (2m)))`: 6, `{"x y", a=~"b"}`: 1, `x @ end()`: 3,
	} {
		expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
		require.NoError(t, err, query)
		got := measure(query, Limits{Depth: 100, RegexpSize: 100}).depth
		require.Equal(t, want, got, query)
		require.LessOrEqual(t, treeDepth(expr), got, query)
		require.NoError(t, Limits{Depth: want}.Check(query))
		if want > 1 {
			require.Error(t, Limits{Depth: want - 1}.Check(query), query)
		}
	}
}

// TestLimitsAreLinear: what would break a parser is refused in the time that it takes to read
// it, and what people write passes.
func TestLimitsAreLinear(t *testing.T) {
	for name, query := range map[string]string{
		"calls": strings.Repeat("abs(", 600_000), "brackets": strings.Repeat("(", 5_000_000), "signs": strings.Repeat("-", 5_000_000) + "1",
		"terms": "1" + strings.Repeat("+1", 2_000_000), "sums": strings.Repeat("sum(", 3000) + "x" + strings.Repeat(")", 3000),
		"ranges": "x" + strings.Repeat("[1m:1m]", 3000), "durations": "x[" + strings.Repeat("1m+", 3000) + "1m]",
	} {
		start := time.Now()
		err := Limits{Length: -1}.Check(query)
		var beyond *LimitError
		require.ErrorAs(t, err, &beyond, name)
		require.Equal(t, "query.max-depth", beyond.Flag)
		require.Less(t, time.Since(start), 5*time.Second, name)
		require.Less(t, len(err.Error()), 200)
	}
	for name, query := range map[string]string{
		"terms": "1" + strings.Repeat("+1", 2000), "sums": strings.Repeat("sum(", 2000) + "x" + strings.Repeat(")", 2000),
		"names": `x{job=~"` + strings.Repeat("instance-17|", 40_000) + `"}`, "counted": `x{job=~"[a-z0-9]{1,63}([.][a-z0-9]{1,63}){0,3}"}`,
		"arguments": `label_join(x, "a", "b"` + strings.Repeat(`, "c"`, 5000) + `)`,
	} {
		require.NoError(t, Limits{}.Check(query), name)
	}
}

// TestSelectorsAndItems: selectors are counted as the parser finds them, and so is the longest list.
func TestSelectorsAndItems(t *testing.T) {
	for query, want := range map[string][2]int{
		`1`: {}, `x`: {1, 0}, `x{a="b"}`: {1, 0}, `{__name__="x",a="b"}`: {1, 2}, `x{a="b",c="d",e="f"}`: {1, 3},
		`a or b{c="d"} or {e="f"}`: {3, 0}, `sum(x)`: {1, 0}, `rate(x[5m]) / rate(y[5m])`: {2, 0}, `{"my metric"}`: {1, 0},
		`sum by (a, b, c) (x{a="b"})`: {1, 3}, `a * on (b, c) group_left (d, e, f, g) h`: {2, 4}, `sum(x) without (a, b)`: {1, 2},
		`a:b:c + time()`: {1, 0}, `label_replace(x, "a", "b", "c", "d")`: {1, 0}, `max_over_time(rate(x[5m])[1h:1m] offset 5m)`: {1, 0},
		"x # y z\n": {1, 0}, `x @ end() + y @ 17`: {2, 0},
	} {
		expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
		require.NoError(t, err, query)
		m := measure(query, Limits{})
		require.Equal(t, want, [2]int{m.selectors, m.items}, query)
		require.NoError(t, Limits{Selectors: max(want[0], 1)}.checkTree(expr), query)
		if want[0] > 1 {
			require.ErrorContains(t, Limits{Selectors: want[0] - 1}.checkTree(expr), "query.max-selectors", query)
		}
	}
}

// TestListsAreBounded: what has too many selectors, or too long a list, is refused wherever it stands,
// and soon.
func TestListsAreBounded(t *testing.T) {
	many := func(n int, one, between string) string {
		return strings.TrimSuffix(strings.Repeat(one+between, n), between)
	}
	start := time.Now()
	for name, c := range map[string]struct{ query, flag string }{
		"names":             {many(20_000, "up", "+"), "max-selectors"},
		"braces":            {many(20_000, `{a="b"}`, " or "), "max-selectors"},
		"in a call":         {"scalar(" + many(1500, "up", ")+scalar(") + ")", "max-selectors"},
		"called like words": {"(" + many(300, "(or or or) or (by or by) or (sum or sum)", ") or (") + ")", "max-selectors"},
		"matchers":          {"x{" + many(10_000, `a="b"`, ",") + "}", "max-items"},
		"by":                {"sum by (" + many(100_000, `a`, ",") + ") (x)", "max-items"},
		"on":                {"a + on (" + many(10_000, `a`, ",") + ") b", "max-items"},
		"group_left":        {"a + on () group_left (" + many(10_000, `a`, ",") + ") b", "max-items"},
	} {
		_, err := Limits{Depth: -1}.Parser(parser.NewParser(promqltest.TestParserOpts)).ParseExpr(c.query)
		require.ErrorContains(t, err, "--query."+c.flag, name)
	}
	require.Less(t, time.Since(start), 10*time.Second)
	require.ErrorContains(t, Limits{}.CheckAll(make([]string, 1_000_000)), "the request has 1000000 selectors or more; the most that --query.max-selectors allows is 1000")
	require.NoError(t, Limits{}.Check(many(1000, "up", "+")))
	require.NoError(t, Limits{Selectors: -1, Depth: -1}.Check(many(20_000, "up", "+")))
}

// TestRegexpSize: what is repeated counts as often as it is repeated, wherever a query has a
// regular expression, and all of a query's count together.
func TestRegexpSize(t *testing.T) {
	bomb := `(([ab][cd]){30}){30}`
	few := `([ab]{30}){20}` // 640
	for query, refused := range map[string]bool{
		`x{a=~"` + bomb + `"}`: true, `x{a!~'` + bomb + `'}`: true, `{a=~"` + bomb + `"}[5m]`: true, "x{a=~`" + bomb + "`}": true,
		`x{a="` + bomb + `"}`: false, `x{a!="` + bomb + `"}`: false,
		`label_replace(x, "a", "b", "c", "` + bomb + `")`: true, `label_replace (x, "a", "b", "c", ("` + bomb + `"))`: true,
		`label_replace(x, "a", "` + bomb + `", "c", "")`: false, `label_join(x, "a", "b", "c", "` + bomb + `")`: false,
		`x{a=~"` + few + `"}`: false, `x{a=~"` + few + `"} + x{a=~"` + few + `"}`: true,
		`x{a=~"` + few + `",a=~"` + few + `"}`: true, `x{a=~"` + strings.Repeat(`\\pL`, 100) + `"}`: true, `x{a=~"(("}`: false,
	} {
		var beyond *LimitError
		err := Limits{RegexpSize: 1000}.Check(query)
		require.Equal(t, refused, errors.As(err, &beyond), query)
		if refused {
			require.Equal(t, "query.max-regexp-size", beyond.Flag)
		}
	}
	ss := []string{`x{a=~"` + few + `"}`}
	require.NoError(t, Limits{RegexpSize: 1000}.CheckAll(ss))
	require.Error(t, Limits{RegexpSize: 1000}.CheckAll(append(ss, ss...)))
}

// TestLimitedParser: what parses a query or a selector checks, short errors are Prometheus's, long ones are cut.
func TestLimitedParser(t *testing.T) {
	plain := parser.NewParser(promqltest.TestParserOpts)
	p := Limits{Length: 100_000, Depth: 5}.Parser(plain)
	long, deep := `x{a="`+strings.Repeat("b", 100_000)+`"}`, strings.Repeat("(", 10)
	for _, s := range []string{long, deep} {
		var beyond *LimitError
		_, err := p.ParseExpr(s)
		require.ErrorAs(t, err, &beyond)
		_, err = p.ParseMetricSelector(s)
		require.ErrorAs(t, err, &beyond)
		_, err = p.ParseMetricSelectors([]string{"x", s})
		require.ErrorAs(t, err, &beyond)
	}
	for _, s := range []string{`sum(`, `x "` + strings.Repeat("b", 3000) + `"`} {
		_, want := plain.ParseExpr(s)
		_, got := p.ParseExpr(s)
		require.Equal(t, want, got)
	}
	_, err := p.ParseExpr(strings.Repeat("x", 50_000) + "(1)")
	var parse parser.ParseErrors
	require.ErrorAs(t, err, &parse)
	require.Less(t, len(err.Error()), 5000)
	require.Contains(t, err.Error(), "parse error: ")
	require.Contains(t, err.Error(), "bytes more)")
}

// FuzzCheck: whatever is accepted has a tree that is not deeper than what was computed.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		`sum(rate(x[5m]))`, `a ^ -b ^ -c or - - d`, `x[5m:1m][5m:1m] @ 5 offset -1m`, `label_replace(x,"a","$1","b","(.{10}){10}")`,
		`x{a=~"b|c"} + on (a) group_left (b) fill (0) -y`, `sum by (and, or) (and) - unless`, `"((" # ((`, `min_of(1, -2) ^ - 3`, `{{`, `x[1m+-2m]`,
	} {
		f.Add(s)
	}
	p := parser.NewParser(promqltest.TestParserOpts)
	f.Fuzz(func(t *testing.T, query string) {
		l := Limits{Depth: 200, Length: 5000, RegexpSize: 10_000}
		if l.Check(query) != nil {
			return
		}
		if expr, err := p.ParseExpr(query); err == nil {
			require.LessOrEqual(t, treeDepth(expr), measure(query, Limits{Depth: 200, RegexpSize: 10_000}).depth)
		}
	})
}
