package workload

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Query
	}{
		"a list":            {"- up\n- |-\n  sum(\n    up)\n- up\n", []Query{{Expr: "up"}, {Expr: "sum(\n  up)"}}},
		"lists":             {"b: [up]\na: [down]\n", []Query{{Expr: "down", From: "a"}, {Expr: "up", From: "b"}}},
		"rules":             {"groups:\n- name: g\n  interval: 1m\n  rules:\n  - {alert: A, expr: up == 0, for: 5m}\n  - {record: r, expr: sum(up)}\n", []Query{{"up == 0", true, "A"}, {"sum(up)", true, "r"}}},
		"a custom resource": {"kind: PrometheusRule\nspec:\n  groups:\n  - rules:\n    - {record: r, expr: 1}\n", []Query{{"1", true, "r"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Read("f.yml", []byte(c.text), Options{})
			require.NoError(t, err)
			require.Equal(t, c.want, w.Queries)
		})
	}
	for text, want := range map[string]string{"groups: []": "no query", "42": "neither rules nor a list", "{": "neither rules"} {
		_, err := Read("f.yaml", []byte(text), Options{})
		require.ErrorContains(t, err, want, text)
	}
}

func TestVariables(t *testing.T) {
	const list = `{"dashboard":{"templating":{"list":[
		{"name":"one","type":"query","current":{"value":"a"}},
		{"name":"two","type":"query","current":{"value":["a.b","c"]}},
		{"name":"all","type":"query","allValue":"x.*","current":{"value":["$__all"]}},
		{"name":"window","type":"interval","query":"5m,1h","current":{"value":"$__auto_interval_window"}},
		{"name":"n","type":"custom","query":"5,10"},
		{"name":"odd","type":"query","query":{"query":"label_values(x)"}}
	]},"rows":[{"panels":[{"title":"p","targets":[{"expr":`
	for expr, want := range map[string]string{
		`x{a="$one"}`:                 `x{a="a"}`,
		`x{a!="$two"}`:                `x{a!~"(a\\.b|c)"}`,
		`x{a=~"[[all]]",b="$one"}`:    `x{a=~"x.*",b="a"}`,
		`x{a="$odd"}`:                 `x{a=~".+"}`,
		`x{a=".+"}`:                   `x{a=~".+"}`, // as if a variable had it
		`topk($n, x)`:                 `topk(5, x)`,
		`rate(x[$window])`:            `rate(x[2m])`,
		`rate(x[$__interval])`:        `rate(x[2m])`,
		`rate(x[${__rate_interval}])`: `rate(x[2m30s])`,
		`rate(x[$__range_s])`:         `rate(x[86400])`,
		`x{a=~"b$"}`:                  `x{a=~"b$"}`,
	} {
		t.Run(expr, func(t *testing.T) {
			quoted, err := jsonText(expr)
			require.NoError(t, err)
			w, err := Read("d.JSON", []byte(list+quoted+`}]}]}]}}`), Options{Step: 2 * time.Minute, Range: 24 * time.Hour, Scrape: 30 * time.Second})
			require.NoError(t, err)
			require.Equal(t, []Query{{Expr: want, From: "p"}}, w.Queries, w.Notes)
		})
	}
}

// TestSecondSchema: a dashboard with elements and a layout, as a resource, and its spec alone.
func TestSecondSchema(t *testing.T) {
	content, err := os.ReadFile("testdata/v2.json")
	require.NoError(t, err)
	var resource struct{ Spec json.RawMessage }
	require.NoError(t, json.Unmarshal(content, &resource))
	for name, content := range map[string][]byte{"resource": content, "spec": resource.Spec} {
		t.Run(name, func(t *testing.T) {
			w, err := Read("v2.json", content, Options{Step: time.Minute, Scrape: 15 * time.Second})
			require.NoError(t, err)
			require.Equal(t, []Query{
				{`sum by (job) (rate(http_requests_total{job=~"(a|b)"}[1m15s]))`, false, "All / Requests"},
				{`sum(rate(http_requests_total{code=~"5..",job=~"(a|b)"}[1h]))`, false, "All / Errors"},
				{"topk(5, node_load1)", true, "Now / Now"},
			}, w.Queries)
			require.Equal(t, []string{
				"$__rate_interval is 1m15s", "$job is (a|b)", "$n is 5", "$window is 1h",
				`skipped: "All / Errors" asks loki and not Prometheus`,
				`left out: "Shared" is a library's panel, whose queries are not in the file`,
			}, w.Notes)
		})
	}

	// Its first form names the kind of data source as the query's kind; a panel may be in no layout.
	w, err := Read("alpha.json", []byte(`{"kind":"Dashboard","spec":{"elements":{"p":{"kind":"Panel","spec":{"title":"p","data":{"spec":{"queries":[
		{"spec":{"query":{"kind":"prometheus","spec":{"expr":"up"}}}},{"spec":{"query":{"kind":"loki","spec":{"expr":"down"}}}}]}}}}}}}`), Options{})
	require.NoError(t, err)
	require.Equal(t, []Query{{"up", false, "p"}}, w.Queries)

	// The first schema as a resource.
	w, err = Read("v1.json", []byte(`{"apiVersion":"dashboard.grafana.app/v1","kind":"Dashboard","spec":{"panels":[{"title":"p","targets":[{"expr":"up"}]}]}}`), Options{})
	require.NoError(t, err)
	require.Equal(t, []Query{{"up", false, "p"}}, w.Queries)
}

// TestPanels: panels are named as Grafana shows them, and those of other data sources are skipped with a word.
func TestPanels(t *testing.T) {
	w, err := Read("d.json", []byte(`{"dashboard":{"title":"All","schemaVersion":39,"templating":{"list":[
		{"name":"job","type":"query","current":{"value":["a","b"]}},{"name":"i","type":"query","current":{"value":"$__all"}}]},"panels":[
		{"title":"Load of $job","targets":[{"refId":"A","expr":"load"}]},
		{"type":"row","title":"Disks of $i","panels":[{"title":"Used","targets":[{"refId":"A","expr":"used"}]}]},
		{"type":"row","title":"Logs","collapsed":false,"panels":[]},
		{"title":"Lines","datasource":{"type":"loki","uid":"l"},"targets":[{"refId":"A","expr":"{a=\"b\"} |= \"x\""},{"refId":"B","expr":"{a=\"c\"} |= \"x\""}]},
		{"title":"Old lines","datasource":"${DS_LOKI}","targets":[{"refId":"A","expr":"{a=\"b\"} |= \"x\""}]},
		{"title":"Rows","datasource":{"type":"postgres","uid":"p"},"targets":[{"refId":"A","rawSql":"select 1"}]},
		{"title":"Mixed","datasource":{"type":"datasource","uid":"-- Mixed --"},"targets":[
			{"refId":"A","datasource":{"type":"loki"},"expr":"{} |= \"\""},{"refId":"B","datasource":{"type":"prometheus"},"expr":"mixed"}]},
		{"title":"Text","type":"text"}
	]}}`), Options{Step: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []Query{{"load", false, "Load of a + b"}, {"used", false, "Disks of All / Used"}, {"mixed", false, "Logs / Mixed"}}, w.Queries)
	require.Equal(t, []string{
		`skipped: "Logs / Lines" asks loki and not Prometheus`, `skipped: "Logs / Old lines" asks loki and not Prometheus`,
		`skipped: "Logs / Rows" asks postgres and not Prometheus`, `skipped: "Logs / Mixed" asks loki and not Prometheus`,
	}, w.Notes)

	w, err = Read("old.json", []byte(`{"title":"All","schemaVersion":6,"rows":[{"title":"R","panels":[{"title":"p","targets":[{"expr":"up"}]},{"targets":[{"expr":"down"}]}]}]}`), Options{})
	require.NoError(t, err)
	require.Equal(t, []Query{{"up", false, "R / p"}, {"down", false, "R"}}, w.Queries)
}

func TestRangeOf(t *testing.T) {
	for text, want := range map[string]Range{
		`{"time":{"from":"now-6h","to":"now"}}`:                              {"now-6h", "now"},
		`{"dashboard":{"time":{"from":"now/d","to":"now"}}}`:                 {"now/d", "now"},
		`{"spec":{"timeSettings":{"from":"now-24h","to":"now","zone":"x"}}}`: {"now-24h", "now"},
		`{}`:   {},
		`what`: {},
	} {
		require.Equal(t, want, RangeOf("d.json", []byte(text)), text)
	}
	require.Zero(t, RangeOf("queries.txt", []byte(`{"time":{"from":"now-6h","to":"now"}}`)))
}

func TestLeftOut(t *testing.T) {
	w, err := Read("d.json", []byte(`{"panels":[{"title":"p","targets":[{"expr":"topk($n, x)"},{"expr":"x"}]}]}`), Options{Step: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []Query{{Expr: "x", From: "p"}}, w.Queries)
	require.Equal(t, "$n is .+", w.Notes[0])
	require.Contains(t, w.Notes[1], `left out: "topk(.+, x)" of "p" does not parse`)
}

func jsonText(s string) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
