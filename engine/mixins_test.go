package engine

import (
	"cmp"
	"flag"
	"hash/fnv"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

var update = flag.Bool("update", false, "rewrite the table in docs/coverage.md")

// share says whether executors evaluate an expression.
type share int

const (
	whole share = iota
	none
	idle // no samples are read
)

// tally counts the expressions of one part of a suite by share.
type tally struct {
	name string
	of   [idle + 1]int
}

func (t tally) total() (n int) {
	for _, k := range t.of {
		n += k
	}
	return n
}

// mixins yields the expressions of each kind in each mixin, and the names of both.
func mixins(t testing.TB) iter.Seq2[string, []string] {
	files, err := filepath.Glob("testdata/mixins/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return func(yield func(string, []string) bool) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var mixin map[string][]string
			require.NoError(t, yaml.UnmarshalStrict(text, &mixin))
			for _, kind := range slices.Sorted(maps.Keys(mixin)) {
				if !yield(strings.TrimSuffix(filepath.Base(file), ".yaml")+" "+kind, mixin[kind]) {
					return
				}
			}
		}
	}
}

// TestMixins runs the expressions of dashboards, rules and alerts that many
// people have, over data made for each of them, compares the answers with
// Prometheus's engine, and holds what executors take against docs/coverage.md.
func TestMixins(t *testing.T) {
	c, delayed := newComparison(false, 2), newComparison(true, 2)
	var s suiteTally
	expressions := 0
	for name, queries := range mixins(t) {
		for _, query := range queries {
			expressions++
			expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
			require.NoError(t, err, query)
			s.add(t, c, delayed, dataFor(t, expr), name, query, times{start: 3_600_000, end: 7_200_000, step: 60_000})
		}
	}
	t.Logf("%d expressions; of their answers %d have series, %d are errors, %d undecided", expressions, c.answered, c.failed, c.undecided)
	require.Greater(t, c.answered, 2*expressions*9/10)
	require.LessOrEqual(t, c.failed, 4) // of two where data has either of two metrics, but never both
	requireInDoc(t, "../docs/coverage.md", "mixins", s.table(), "TestMixins")
}

// times are those of a range query, in ms.
type times struct{ start, end, step int64 }

// requireInDoc holds text against what a document has between the markers of a name, or
// puts it there if asked to.
func requireInDoc(t *testing.T, path, name, text, test string) {
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(doc), begin)
	require.True(t, ok, "%s has no marker", path)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no marker", path)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+text+end+after), 0o644))
		return
	}
	require.Equal(t, old, text, "%s is out of date: go test -run %s ./engine -update", path, test)
}

// dataFor makes a storage that has what the selectors of expr select: for each
// of them a few series, with the labels that the expression names above it, and
// such that joins find one another and are not many-to-many.
func dataFor(t testing.TB, expr parser.Expr) *blocks {
	d := &mixinData{values: map[string][]string{}}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			d.selector(v, path)
		}
		return nil
	})
	return d.storage(t)
}

// mixinData is what an expression wants to see.
type mixinData struct {
	selectors []*wanted
	values    map[string][]string // that the expression's matchers match, by label
}

// wanted is what one selector wants.
type wanted struct {
	name   string
	match  []*labels.Matcher
	labels []string
	// unique lists joins of which it is on the one side: no two of its series may
	// share the values of the labels that they match by.
	unique []*parser.VectorMatching
}

const mixinSeries = 6 // of a selector

func (d *mixinData) selector(v *parser.VectorSelector, path []parser.Node) {
	w := &wanted{match: v.LabelMatchers}
	has := map[string]bool{"instance": true}
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			w.name = m.Value
			continue
		}
		has[m.Name] = true
		for _, s := range matched(m) {
			if !slices.Contains(d.values[m.Name], s) {
				d.values[m.Name] = append(d.values[m.Name], s)
			}
		}
	}
	for i, n := range path {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			for _, l := range n.Grouping {
				has[l] = true
			}
		case *parser.BinaryExpr:
			var below parser.Node = v
			if i+1 < len(path) {
				below = path[i+1]
			}
			m := n.VectorMatching
			if m == nil || (!m.On && len(m.MatchingLabels) == 0) {
				continue
			}
			for _, l := range m.MatchingLabels {
				has[l] = has[l] || m.On
			}
			many := m.Card == parser.CardManyToMany || (m.Card == parser.CardManyToOne && below == parser.Node(n.LHS)) ||
				(m.Card == parser.CardOneToMany && below == parser.Node(n.RHS))
			if !many {
				w.unique = append(w.unique, m)
				continue
			}
			for _, l := range m.Include {
				delete(has, l) // they come from the one side
			}
		case *parser.Call:
			if n.Func.Name == "label_replace" {
				has[n.Args[3].(*parser.StringLiteral).Val] = true
			}
		}
	}
	delete(has, "le")
	w.labels = slices.Sorted(maps.Keys(has))
	d.selectors = append(d.selectors, w)
}

// matched lists values that a matcher matches and that are easily told from it.
func matched(m *labels.Matcher) (out []string) {
	try := []string{m.Value, "other", "v1", "v2", "v3"}
	if m.Type == labels.MatchRegexp {
		plain := strings.NewReplacer("(", "", ")", "", ".+", "x", ".*", "x", "..", "00", "[0-9]*", "1", "/dev/?", "", `\`, "")
		try = append(strings.Split(plain.Replace(m.Value), "|"), try...)
	}
	for _, s := range try {
		if s != "" && m.Matches(s) && !strings.ContainsAny(s, "|+*") {
			out = append(out, s)
		}
	}
	if m.Type == labels.MatchEqual {
		return out
	}
	return out[:min(len(out), 3)]
}

// series lists the label sets of a selector. The k-th of each selector has the
// k-th value of every label, so that those of different selectors meet.
func (d *mixinData) series(w *wanted) (out []labels.Labels) {
	seen := map[string]bool{}
	for k := range mixinSeries {
		b := labels.NewBuilder(labels.EmptyLabels()).Set(model.MetricNameLabel, w.name)
		for _, l := range w.labels {
			values := slices.DeleteFunc(append(slices.Clone(d.values[l]), "v1", "v2", "v3"), func(s string) bool {
				return slices.ContainsFunc(w.match, func(m *labels.Matcher) bool { return m.Name == l && !m.Matches(s) })
			})
			if len(values) > 0 {
				b.Set(l, values[k%len(values)])
			}
		}
		l := b.Labels()
		again := false
		for _, m := range append(w.unique, &parser.VectorMatching{}) {
			part := l.MatchLabels(m.On, m.MatchingLabels...)
			key := part.String() + strings.Join(m.MatchingLabels, ",")
			again = again || seen[key]
			seen[key] = true
		}
		if again {
			continue
		}
		if !strings.HasSuffix(w.name, "_bucket") && !slices.ContainsFunc(w.match, func(m *labels.Matcher) bool { return m.Name == "le" }) {
			out = append(out, l)
			continue
		}
		for _, le := range []string{"0.1", "1", "5", "30", "+Inf"} {
			if l := labels.NewBuilder(l).Set("le", le).Labels(); matches(l, w.match) {
				out = append(out, l)
			}
		}
	}
	return out
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// storage fills two hours of all series.
func (d *mixinData) storage(t testing.TB) *blocks {
	all := map[string]labels.Labels{}
	for _, w := range d.selectors {
		for _, l := range d.series(w) {
			all[l.String()] = l
		}
	}
	b := &blocks{series: slices.SortedFunc(maps.Values(all), labels.Compare)}
	b.chunks = make([][][]chunks.Meta, 1)
	for _, l := range b.series {
		var cs []chunks.Meta
		for rest := mixinSamples(l); len(rest) > 0; {
			n := min(120, len(rest))
			c, err := chunks.ChunkFromSamples(rest[:n])
			require.NoError(t, err)
			cs = append(cs, c)
			rest = rest[n:]
		}
		b.chunks[0] = append(b.chunks[0], cs)
	}
	return b
}

// mixinSamples makes a series, whose kind its name tells: a counter, or a gauge
// that takes the values that alerts look for.
func mixinSamples(l labels.Labels) (out []chunks.Sample) {
	h := fnv.New32a()
	h.Write([]byte(labels.NewBuilder(l).Del("le").Labels().String()))
	pick := int(h.Sum32() % 1000)
	name := l.Get(model.MetricNameLabel)
	counter := false
	for _, s := range []string{"_total", "_count", "_sum", "_bucket"} {
		counter = counter || strings.HasSuffix(name, s)
	}
	le := slices.Index([]string{"0.1", "1", "5", "30", "+Inf"}, cmp.Or(l.Get("le"), "+Inf"))
	v := 0.0
	for t := int64(0); t <= blocksLength; t += scrape {
		step := int(t / scrape)
		switch {
		case counter:
			if v += float64((pick+step)%7) * float64(le+1) / 5; (pick+step)%150 == 0 {
				v = 0
			}
		default:
			v = []float64{0, 1, 0.25, 2, 100, -0.1}[(pick+step/(20+pick%13))%6]
		}
		out = append(out, floatSample{t: t, v: v})
	}
	return out
}
