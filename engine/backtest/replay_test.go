package backtest

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

var seed = flag.Uint64("seed", 0, "the only seed of random rules and data; 0 means several")

// prometheus is a Source that is Prometheus's engine.
type prometheus struct {
	engine *promql.Engine
	db     storage.Queryable
	ranges int // range queries so far
}

func newPrometheus(db storage.Queryable) *prometheus {
	return &prometheus{engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e8, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	}), db: db}
}

func (p *prometheus) Range(ctx context.Context, expr string, g plan.Grid, histograms bool) ([]plan.Row, error) {
	p.ranges++
	q, err := p.engine.NewRangeQuery(ctx, p.db, nil, expr, time.UnixMilli(g.Start), time.UnixMilli(g.End()), time.Duration(g.Interval)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return nil, r.Err
	}
	return Rows(r.Value, g, histograms), nil
}

var promQL = parser.NewParser(parser.Options{})

// Example tries a rule on five hours, in two of which a queue was long.
func Example() {
	db, err := teststorage.NewWithError()
	if err != nil {
		panic(err)
	}
	defer db.Close()
	app := db.Appender(context.Background())
	for m := range int64(300) {
		length := 3.
		if m >= 60 && m < 120 || m >= 200 && m < 260 {
			length = 40
		}
		if _, err := app.Append(0, labels.FromStrings("__name__", "queue_length", "queue", "mail"), m*60_000, length); err != nil {
			panic(err)
		}
	}
	if err := app.Commit(); err != nil {
		panic(err)
	}
	all, err := Parse("rules.yml", []byte(`groups: [{name: queues, rules: [{alert: LongQueue, expr: queue_length > 10, for: 10m}]}]`), time.Minute, promQL)
	if err != nil {
		panic(err)
	}
	report, err := all[0].Try(context.Background(), newPrometheus(db), time.Unix(0, 0), time.Unix(300*60, 0), false)
	if err != nil {
		panic(err)
	}
	for _, a := range report.Alerts {
		fmt.Println(a.Labels, "fired", a.Fired, "times, flapped", a.Flapped)
		for _, s := range a.Spells {
			fmt.Println(s.State, "for", s.End.Sub(s.Start), "at", s.Value)
		}
	}
	// Output:
	// {alertname="LongQueue", queue="mail"} fired 2 times, flapped 0
	// pending for 10m0s at 40
	// firing for 50m0s at 40
	// pending for 10m0s at 40
	// firing for 50m0s at 40
}

// live evaluates the groups of a file as a running Prometheus does, one step after the other, and returns
// what it found, by group and rule.
func live(t *testing.T, content string, p *prometheus, start, end time.Time) map[string]string {
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(p.engine, p.db), Appendable: teststorage.New(t), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := m.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	require.Empty(t, errs)
	out := map[string]string{}
	for _, g := range groups {
		// The times are those of a file called rules.yml.
		named := rules.NewGroup(rules.GroupOptions{Name: g.Name(), File: "rules.yml", Interval: g.Interval(), Opts: &rules.ManagerOptions{}})
		alerts := make([]map[uint64]*Alert, len(g.Rules()))
		failures := make([]int, len(g.Rules()))
		for i := range alerts {
			alerts[i] = map[uint64]*Alert{}
		}
		var last model.Time
		at := named.EvalTimestamp(start.UnixNano())
		for ; !at.After(end); at = at.Add(g.Interval()) {
			if at.Before(start) {
				continue
			}
			g.Eval(t.Context(), at)
			now := model.TimeFromUnixNano(at.UnixNano())
			last = now
			for i, r := range g.Rules() {
				if r.LastError() != nil {
					failures[i]++
				}
				active := map[uint64]bool{}
				for _, is := range r.(*rules.AlertingRule).ActiveAlerts() {
					h := is.Labels.Hash()
					active[h] = true
					a := alerts[i][h]
					if a == nil {
						a = &Alert{Labels: is.Labels}
						alerts[i][h] = a
					}
					if a.state() == is.State.String() {
						continue
					}
					if a.state() != "" {
						a.last().End, a.last().end = now, 0
					}
					a.Spells = append(a.Spells, Spell{State: is.State.String(), Start: now, Value: model.SampleValue(is.Value), end: -1})
				}
				for h, a := range alerts[i] {
					if !active[h] && a.state() != "" {
						a.last().End, a.last().end = now, 0
					}
				}
			}
		}
		for i, r := range g.Rules() {
			for _, a := range alerts[i] {
				if a.state() != "" {
					a.last().End, a.last().Open = last, true
				}
			}
			out[g.Name()+"/"+strconv.Itoa(i)+r.Name()] = told(alerts[i], failures[i])
		}
	}
	return out
}

// told is what alerts did, as text.
func told(alerts map[uint64]*Alert, failed int) string {
	var lines []string
	for _, a := range alerts {
		line := a.Labels.String()
		for _, s := range a.Spells {
			line += fmt.Sprintf("\n  %s %d..%d open=%t value=%x", s.State, s.Start, s.End, s.Open, math.Float64bits(float64(s.Value)))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + fmt.Sprintf("\nfailed %d", failed)
}

// randomData fills a TSDB with three hours of series that end, pause, go stale, and whose values move
// about their thresholds.
func randomData(t *testing.T, r *rand.Rand) storage.Storage {
	db := teststorage.New(t)
	app := db.Appender(t.Context())
	for _, name := range []string{"m", "n"} {
		for i := range 5 {
			l := labels.FromStrings("__name__", name, "i", strconv.Itoa(i), "job", string("ab"[i%2]))
			v, at := r.Float64(), int64(r.IntN(60_000))
			if r.IntN(4) == 0 {
				at += int64(r.IntN(3_600_000))
			}
			last := int64(3 * 3_600_000)
			if r.IntN(3) == 0 {
				last = int64(r.IntN(3 * 3_600_000))
			}
			for at < last {
				v = min(max(v+(r.Float64()-.5)*.3, 0), 1)
				if r.IntN(3) == 0 {
					v = math.Round(v*10) / 10 // at a threshold
				}
				_, err := app.Append(0, l, at, v)
				require.NoError(t, err)
				at += 15_000 + int64(r.IntN(50))
				switch r.IntN(40) {
				case 0:
					_, err := app.Append(0, l, at, math.Float64frombits(value.StaleNaN))
					require.NoError(t, err)
					at += int64(r.IntN(1_200_000)) + 1
				case 1:
					at += int64(r.IntN(1_200_000))
				}
			}
		}
	}
	require.NoError(t, app.Commit())
	return db
}

// TestTemplates: templates of labels are expanded that can be for everybody.
func TestTemplates(t *testing.T) {
	for text, expanded := range map[string]bool{
		"plain": true, "{{ $labels.job }}": true, "{{.Labels.job}} and {{- $labels.i -}}": true,
		"{{ $value }}": false, "{{ $labels }}": false, "{{ . }}": false, "{{ $labels.job | toUpper }}": false, "{{ printf `%1000000d` 1 }}": false,
		"{{ query `up` | first | value }}": false, "{{ if $labels.job }}x{{ end }}": false, "{{ ": false, "{{{{ $labels.job }} $value }}": false,
		strings.Repeat("{{ $labels.job }}", 21): false,
	} {
		safe, notes := expandable(labels.FromStrings("l", text))
		require.Equal(t, expanded, safe.Get("l") == text, text)
		require.Equal(t, expanded, len(notes) == 0, text)
	}
}

// oneOf chooses.
func oneOf[E any](r *rand.Rand, all ...E) E { return all[r.IntN(len(all))] }

// threshold stands in a random expression where its threshold is.
const threshold = "THRESHOLD"

// randomRules writes a file of rules, whose thresholds are still to be filled in.
func randomRules(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("groups:\n")
	for g := range 1 + r.IntN(2) {
		fmt.Fprintf(&b, "- name: g%d\n  interval: %s\n", g, oneOf(r, "15s", "30s", "45s", "1m", "7m"))
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "  query_offset: %s\n", oneOf(r, "10s", "90s", "5m"))
		}
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, "  limit: %d\n", 1+r.IntN(3))
		}
		if r.IntN(4) == 0 {
			b.WriteString("  labels: {team: blue, i: group}\n")
		}
		b.WriteString("  rules:\n")
		for a := range 1 + r.IntN(3) {
			expr := strings.ReplaceAll(oneOf(r,
				"m > T", "m >= T", "T < m", "m == T", "m != T", "m{job=\"a\"} < T", "-m > -T", "(m > T) and on (i) n > 0.5", "(m > T) unless on (job) (n > 0.7)",
				"((m > T) and n) unless on () n{i=\"3\"} > 0.8", "sum by (job) (m) > T", "max(m) > T", "avg_over_time(m[3m]) > T", "m > T or n > T", "absent(m{i=\"0\"})",
				"m and on () (n{i=\"1\"} > T)", "m > on (i) n", "m > bool T", "vector(1) > T", "topk(2, m) > T", "m @ 3600 > T", "max_over_time(m[5m:1m]) > T", "rate(m[5m]) > T", "T"),
				"T", threshold)
			fmt.Fprintf(&b, "  - alert: A%d\n    expr: %s\n", a, expr)
			if r.IntN(4) > 0 {
				fmt.Fprintf(&b, "    for: %s\n", oneOf(r, "15s", "1m", "2m", "150s", "10m", "1h"))
			}
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "    keep_firing_for: %s\n", oneOf(r, "15s", "1m", "2m", "10m", "30m"))
			}
			switch r.IntN(8) {
			case 0:
				b.WriteString("    labels: {severity: page, job: \"\"}\n")
			case 1:
				b.WriteString("    labels: {i: same}\n") // which may make labels the same
			case 2:
				b.WriteString("    labels: {of: '{{ $labels.job }} {{$labels.i}}', zone: x}\n")
			case 3:
				b.WriteString("    labels: {of: 'x{{- .Labels.job -}} y', empty: ''}\n")
			case 5:
				b.WriteString("    annotations: {summary: '{{ $value }}'}\n")
			}
		}
	}
	return strings.ReplaceAll(b.String(), "150s", "2m30s")
}

// TestLive holds alerts of random rules over random data against a Prometheus that evaluates the same
// groups step by step; then with another threshold, for and keep_firing_for.
func TestLive(t *testing.T) {
	seeds := []uint64{*seed}
	if *seed == 0 {
		n, _ := strconv.Atoi(cmp.Or(os.Getenv("PROMWARP_RANDOM"), "15"))
		seeds = seeds[:0]
		for range n {
			seeds = append(seeds, rand.Uint64())
		}
	}
	spells, failed := 0, 0
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := newPrometheus(randomData(t, r))
			template := randomRules(r)
			written := func() string {
				return strings.ReplaceAll(template, threshold, strconv.FormatFloat(math.Round(r.Float64()*10)/10, 'f', -1, 64))
			}
			content := written()
			start := time.UnixMilli(int64(r.IntN(2 * 3_600_000)))
			end := start.Add(time.Duration(1+r.IntN(90)) * time.Minute).Add(7 * time.Minute)
			check := func(content string, change func(*Rule), compared bool) {
				want := live(t, content, p, start, end)
				all, err := Parse("rules.yml", []byte(content), time.Minute, promQL)
				require.NoError(t, err, content)
				require.Len(t, all, len(want))
				at := map[string]int{}
				for _, rule := range all {
					name := rule.Group + "/" + strconv.Itoa(at[rule.Group]) + rule.Alert
					at[rule.Group]++
					change(rule)
					report, err := rule.Try(t.Context(), p, start, end, compared)
					require.NoError(t, err, content)
					alerts := map[uint64]*Alert{}
					for _, a := range report.Alerts {
						alerts[a.Labels.Hash()] = a
						spells += len(a.Spells)
					}
					failed += report.Failed
					require.Equal(t, want[name], told(alerts, report.Failed), "%s of\n%s\nfrom %d to %d, compared %t", name, content, start.UnixMilli(), end.UnixMilli(), compared)
				}
			}
			check(content, func(*Rule) {}, false)
			check(content, func(*Rule) {}, true)
			// The rules of another file, tried as changes of this one's.
			other := written()
			rewritten, err := Parse("rules.yml", []byte(content), time.Minute, promQL)
			require.NoError(t, err)
			next := 0
			check(other, func(r *Rule) {
				was := rewritten[next]
				next++
				if was.Threshold == nil {
					return
				}
				was.Threshold.Value, was.For, was.KeepFiringFor = r.Threshold.Value, r.For, r.KeepFiringFor
				*r = *was
			}, true)
		})
	}
	t.Logf("%d spells, %d failed evaluations", spells, failed)
	require.Positive(t, spells)
}

// rowsOf is a Source that has rows.
type rowsOf []plan.Row

func (r rowsOf) Range(context.Context, string, plan.Grid, bool) ([]plan.Row, error) { return r, nil }

// TestEpisodes: the alerts of series that come and go a hundred times do what Prometheus's state machine
// does at each single step, and begin with the values of these.
func TestEpisodes(t *testing.T) {
	const steps, text = 1000, `groups: [{name: g, rules: [{alert: A, expr: m, for: %s, keep_firing_for: %s}]}]`
	for range 50 {
		seed := cmp.Or(*seed, rand.Uint64())
		r := rand.New(rand.NewPCG(seed, 1))
		all, err := Parse("rules.yml", fmt.Appendf(nil, text, oneOf(r, "0s", "1m", "3m"), oneOf(r, "0s", "1m", "90s", "5m")), time.Minute, promQL)
		require.NoError(t, err)
		rule := all[0]
		rows, want := rowsOf{}, map[string][]string{}
		first := rule.group.EvalTimestamp(time.Unix(3600, 0).UnixNano())
		for i := range 3 {
			l := labels.FromStrings("alertname", "A", "i", strconv.Itoa(i))
			row, states := plan.Row{Labels: l}, make([]string, steps)
			m := rules.NewAlertingRule("A", rule.Expr, rule.For, rule.KeepFiringFor, labels.EmptyLabels(), labels.EmptyLabels(), labels.EmptyLabels(), "", false, promslog.NewNopLogger())
			before := ""
			for k, left, there := 0, 0, true; k < steps; k, left = k+1, left-1 {
				if left == 0 {
					left, there = 1+r.IntN(oneOf(r, 3, 12)), !there
				}
				var now promql.Vector
				if there {
					row.Runs, row.Values = plan.AppendRun(row.Runs, plan.Run{First: int32(k), Len: 1}), append(row.Values, float64(k))
					now = promql.Vector{{Metric: l, F: float64(k)}}
				}
				_, err := m.Eval(t.Context(), 0, first.Add(time.Duration(k)*time.Minute), func(context.Context, string, time.Time) (promql.Vector, error) { return now, nil }, nil, 0)
				require.NoError(t, err)
				for _, a := range m.ActiveAlerts() {
					if states[k] = a.State.String(); states[k] != before {
						states[k] += fmt.Sprint(" at ", a.Value)
					}
					before = a.State.String()
				}
				if states[k] == "" {
					before = ""
				}
			}
			rows = append(rows, row)
			want[l.String()] = states
		}
		report, err := rule.Try(t.Context(), rows, first, first.Add((steps-1)*time.Minute), false)
		require.NoError(t, err)
		got := map[string][]string{}
		for _, a := range report.Alerts {
			states := make([]string, steps)
			for _, s := range a.Spells {
				require.Less(t, s.end, steps)
				for k := s.first; k < s.end || s.Open && k == s.end; k++ {
					states[k] = s.State
				}
				states[s.first] += fmt.Sprint(" at ", s.Value)
			}
			got[a.Labels.String()] = states
		}
		require.Equal(t, want, got, "seed %d: %s", seed, text)
	}
}

// TestSpellsJSON: spells are written as encoding/json writes them.
func TestSpellsJSON(t *testing.T) {
	var all Spells
	for _, at := range []model.Time{0, 1, 10, 100, 120, 999, 1000, 17_123, 1_795_000_000_000, 1_795_000_017_020, -1, -1500} {
		for _, v := range []float64{0, -1.5, 1e21, 1e-9, math.NaN(), math.Inf(-1)} {
			all = append(all, Spell{State: firing, Start: at, End: at + 60_000, Open: v == 0, Value: model.SampleValue(v)})
		}
	}
	want, err := json.Marshal([]Spell(all))
	require.NoError(t, err)
	have, err := json.Marshal(all)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
	have, err = json.Marshal(Spells{})
	require.NoError(t, err)
	require.Equal(t, "[]", string(have))
}
