package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// allFeatures are those of Prometheus that change what a query is answered.
var allFeatures = []string{
	"promql-experimental-functions", "promql-delayed-name-removal", "promql-extended-range-selectors",
	"promql-binop-fill-modifiers", "promql-per-step-stats", "use-start-timestamps", "type-and-unit-labels",
}

// externalLabelSets are the external labels of cells: none, ones that no series has, and
// ones that some series have of their own, with the same value or another.
var externalLabelSets = []string{"{}", "{datacenter: x, replica: a}", `{cluster: eu, room: "5"}`}

// configurable is a Prometheus whose configuration can be changed while it runs.
type configurable struct {
	*process
	file string
}

func startConfigurable(t *testing.T, dataDir string, features []string) *configurable {
	t.Helper()
	addr := mustFreeAddr(t)
	c := &configurable{file: writeConfig(t, "")}
	args := append(programs.PrometheusArgs(addr, dataDir, c.file), "--web.enable-lifecycle")
	if len(features) > 0 {
		args = append(args, "--enable-feature="+strings.Join(features, ","))
	}
	c.process = runServer(t, "Prometheus", addr, prometheusBin, args...)
	return c
}

// configure has it reload with other settings.
func (c *configurable) configure(external, interval string) error {
	text := fmt.Sprintf("global: {evaluation_interval: %s, external_labels: %s}\n", interval, external)
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		return err
	}
	resp, err := http.Post(c.URL+"/-/reload", "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("reload: %s", resp.Status)
	}
	return nil
}

// matrixForm asks for a query over some steps or at an instant.
func matrixForm(r *rand.Rand, q string, end time.Time) (path string, form url.Values) {
	at := end.Add(-time.Duration(r.IntN(3600)) * time.Second)
	if r.IntN(3) == 0 {
		return "/api/v1/query", instantForm(q, at)
	}
	step := []time.Duration{7 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}[r.IntN(4)]
	return "/api/v1/query_range", grid{at.Add(-time.Duration(1+r.IntN(20)) * step), at, step}.rangeForm(q)
}

// TestSettingsMatrix: whatever the upstream's settings, each answer, error and annotation
// is what asking that upstream gives. Each cell asks other queries, E2E_WRITTEN that are
// written and E2E_RANDOM random ones; E2E_SEED has them asked again.
func TestSettingsMatrix(t *testing.T) {
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	random, err := envInt("E2E_RANDOM", 75)
	require.NoError(t, err)
	written, err := envInt("E2E_WRITTEN", int64(len(matrixTemplates)))
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	cell := uint64(0)
	for _, storage := range []matrixStorage{{false, false}, {false, true}, {true, false}, {true, true}} {
		dir := writeMatrixData(t, storage, end)
		for _, features := range [][]string{nil, allFeatures} {
			name := "features off"
			if features != nil {
				name = "features on"
			}
			t.Run(fmt.Sprintf("%s, %s", storage, name), func(t *testing.T) {
				prom := startConfigurable(t, dir, append(storage.features(), features...))
				defer prom.stop(t)
				for _, external := range externalLabelSets {
					for _, interval := range []string{"15s", "1m"} {
						t.Run(external+", "+interval, func(t *testing.T) {
							require.NoError(t, prom.configure(external, interval))
							pw := promwarp(t, prom.URL)
							cell++
							r := rand.New(rand.NewPCG(uint64(seed), cell))
							compareMatrix(t, prom.URL, pw.URL, r, matrixQueries(r, int(written), int(random)), end)
						})
					}
				}
			})
		}
	}
}

// stop ends the process so that another may have its data directory.
func (c *configurable) stop(t *testing.T) {
	c.signal(os.Interrupt)
	c.wait(t, 30*time.Second)
}

// leftToChance reports whether Prometheus answers differently when it is asked again: of
// equal values topk keeps those that come first, and the order of the series that some
// functions yield is that of a map.
func leftToChance(t *testing.T, prom, path string, form url.Values, want, got answer) bool {
	t.Helper()
	for range 20 {
		again := ask(t, prom, path, form)
		if same(want, again, false) != nil || same(again, got, false) == nil {
			return true
		}
	}
	return false
}

// compareMatrix asks both servers.
func compareMatrix(t *testing.T, prom, pw string, r *rand.Rand, queries []string, end time.Time) {
	t.Helper()
	different, errors, empty, chance := 0, 0, 0, 0
	for _, q := range queries {
		path, form := matrixForm(r, q, end)
		want, got := ask(t, prom, path, form), ask(t, pw, path, form)
		if err := same(want, got, false); err != nil && leftToChance(t, prom, path, form, want, got) {
			chance++
		} else if err != nil {
			different++
			if different <= 10 {
				t.Errorf("%s?%s\n%s: %v", path, form.Encode(), q, err)
			}
		}
		switch body := string(want.body); {
		case want.code != http.StatusOK:
			errors++
		case strings.Contains(body, `"result":[]`):
			empty++
		}
	}
	t.Logf("%d queries, %d of them errors, %d without result and %d left to chance by Prometheus; %d differ", len(queries), errors, empty, chance, different)
	require.Zero(t, different)
	require.Less(t, chance, len(queries)/20)
	require.Less(t, errors+empty, len(queries)*7/10)
}

// TestLookbackDelta: an upstream's --query.lookback-delta is followed.
func TestLookbackDelta(t *testing.T) {
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	addr := mustFreeAddr(t)
	args := append(programs.PrometheusArgs(addr, writeMatrixData(t, matrixStorage{}, end), writeConfig(t, "")), "--query.lookback-delta=45s")
	prom := runServer(t, "Prometheus", addr, prometheusBin, args...)
	r := rand.New(rand.NewPCG(3, 4))
	compareMatrix(t, prom.URL, promwarp(t, prom.URL).URL, r, matrixQueries(r, 60, 60), end)
}

// TestReplicas: of two upstreams that differ in an external label alone answers are those
// of one.
func TestReplicas(t *testing.T) {
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	config := "remote_read:\n"
	var first *configurable
	for _, replica := range []string{"a", "b"} {
		prom := startConfigurable(t, writeMatrixData(t, matrixStorage{}, end), nil)
		require.NoError(t, prom.configure(fmt.Sprintf(`{replica: %s, room: "5"}`, replica), "15s"))
		config += fmt.Sprintf("- {name: %s, url: %s/api/v1/read}\n", replica, prom.URL)
		if first == nil {
			first = prom
		}
	}
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, "serve", "--config.file="+writeConfig(t, config), "--web.listen-address="+addr)
	r := rand.New(rand.NewPCG(5, 6))
	compareMatrix(t, first.URL, pw.URL, r, matrixQueries(r, 100, 100), end)
}

// TestReloadingUpstream: while an upstream changes its settings each answer is one that
// it gives with the settings before or after.
func TestReloadingUpstream(t *testing.T) {
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	dir := writeMatrixData(t, matrixStorage{}, end)
	prom := startConfigurable(t, dir, nil)
	type setting struct{ external, interval string }
	settings := []setting{{"{}", "1m"}, {`{cluster: eu, room: "5"}`, "15s"}, {"{replica: a}", "1m"}, {`{cluster: us}`, "15s"}}
	queries := []string{
		`memory_bytes`, `load{cluster="eu"}`, `count by (cluster, replica, room) ({job=~".+"})`, `room_events_total{room="5"}`, `room_events_total{room!="5"}`,
		`sum without(instance) (rate(room_events_total[2m]))`, `count_over_time(memory_bytes[5m:])`, `requests_total{replica="a"}`, `load{cluster!="us"}`,
	}
	forms := make([]url.Values, len(queries))
	allowed := make([][]answer, len(queries))
	for i, q := range queries {
		forms[i] = grid{end.Add(-30 * time.Minute), end, time.Minute}.rangeForm(q)
	}
	for _, s := range settings {
		require.NoError(t, prom.configure(s.external, s.interval))
		for i := range queries {
			allowed[i] = append(allowed[i], ask(t, prom.URL, "/api/v1/query_range", forms[i]))
		}
	}

	// A cache that keeps nothing has to ask each time.
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, prom.URL), "--cache.host-bytes=0", "--cache.decoded-bytes=0")...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var answers, reloads atomic.Int64
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for n := worker; ctx.Err() == nil; n++ {
				i := n % len(queries)
				got, err := post(ctx, pw.URL, "/api/v1/query_range", forms[i])
				if err != nil {
					continue // time is up
				}
				fits := false
				var why error
				for _, want := range allowed[i] {
					if why = same(want, got, false); why == nil {
						fits = true
						break
					}
				}
				if !fits {
					t.Errorf("%s: no setting gives this: %v", queries[i], why)
					return
				}
				answers.Add(1)
			}
		})
	}
	for n := 0; ctx.Err() == nil; n++ {
		s := settings[n%len(settings)]
		// No labels come again, as a fetch cannot tell a change and back again.
		external := strings.Replace(s.external, "{", fmt.Sprintf("{change: c%d,", n), 1)
		require.NoError(t, prom.configure(external, s.interval))
		reloads.Add(1)
		time.Sleep(time.Duration(20+n%7*10) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d answers while the upstream was reloaded %d times", answers.Load(), reloads.Load())
	require.Greater(t, answers.Load(), int64(100))
}

// The data of the matrix of settings: samples 15 s apart over two hours, with gaps, stale
// markers and counter resets. Some series have labels of their own that are external
// labels of some cells.

const (
	matrixHours  = 2
	matrixScrape = 15 * time.Second
)

// matrixStorage is how the data of a cell is stored.
type matrixStorage struct {
	startTimestamps bool // with start timestamps, in XOR2 chunks
	histograms      bool // native ones beside the floats
}

func (s matrixStorage) String() string {
	text := "XOR"
	if s.startTimestamps {
		text = "XOR2"
	}
	if s.histograms {
		return text + ", native histograms"
	}
	return text + ", floats"
}

// features are those that a Prometheus needs to keep such data.
func (s matrixStorage) features() []string {
	if s.startTimestamps {
		return []string{"xor2-encoding", "st-storage", "histograms-st-encoding"}
	}
	return nil
}

// matrixSeries is one series and how its samples come about.
type matrixSeries struct {
	labels labels.Labels
	next   func(r *rand.Rand, last float64) float64
	native bool
}

func counting(r *rand.Rand, last float64) float64 {
	if r.IntN(90) == 0 {
		return float64(r.IntN(5)) // a reset
	}
	return last + float64(r.IntN(20))
}

func wandering(r *rand.Rand, last float64) float64 { return last + math.Round(r.NormFloat64()*100)/16 }

// matrixSeriesList returns the series in label order: a Prometheus yields those of its
// head in the order of their creation, and sums depend on it in their last bits.
func matrixSeriesList(histograms bool) (all []matrixSeries) {
	add := func(next func(*rand.Rand, float64) float64, native bool, pairs ...string) {
		all = append(all, matrixSeries{labels.FromStrings(pairs...), next, native})
	}
	for _, job := range []string{"api", "db"} {
		for instance := range 3 {
			i := fmt.Sprintf("host-%d:80", instance)
			for _, code := range []string{"200", "404", "500"} {
				add(counting, false, model.MetricNameLabel, "requests_total", "job", job, "instance", i, "code", code)
			}
			add(wandering, false, model.MetricNameLabel, "memory_bytes", "job", job, "instance", i)
			add(wandering, false, model.MetricNameLabel, "load", "job", job, "instance", i, "cluster", []string{"eu", "us", "ap"}[instance])
			add(counting, false, model.MetricNameLabel, "room_events_total", "job", job, "instance", i, "room", fmt.Sprint(4+instance))
			add(func(*rand.Rand, float64) float64 { return 1 }, false, model.MetricNameLabel, "target_info", "job", job, "instance", i, "version", fmt.Sprint("v", instance), "room", "9")
			for _, le := range []string{"0.1", "1", "+Inf"} {
				add(counting, false, model.MetricNameLabel, "latency_seconds_bucket", "job", job, "instance", i, "le", le)
			}
			if histograms {
				add(nil, true, model.MetricNameLabel, "native_seconds", "job", job, "instance", i)
			}
		}
		add(counting, false, model.MetricNameLabel, "room_events_total", "job", job, "instance", "none")
		add(wandering, false, model.MetricNameLabel, "typed", "job", job, "__type__", "gauge", "__unit__", "seconds")
	}
	slices.SortFunc(all, func(a, b matrixSeries) int { return labels.Compare(a.labels, b.labels) })
	return all
}

// matrixTarget is a database that the data is written into, and the labels that all series have there
// besides.
type matrixTarget struct {
	db    *tsdb.DB
	extra labels.Labels
}

// openMatrix opens a database for the data in a new directory.
func openMatrix(t *testing.T, s matrixStorage) (db *tsdb.DB, dir string) {
	t.Helper()
	dir = t.TempDir()
	o := tsdb.DefaultOptions()
	o.RetentionDuration = (10 * 365 * 24 * time.Hour).Milliseconds()
	if s.startTimestamps {
		o.EnableSTStorage, o.EnableHistogramSTEncoding, o.FloatChunkEncoding = true, true, chunkenc.EncXOR2
	}
	db, err := tsdb.Open(dir, nil, nil, o, nil)
	require.NoError(t, err)
	return db, dir
}

// writeMatrixData writes the data that ends at end into a new data directory.
func writeMatrixData(t *testing.T, s matrixStorage, end time.Time) (dir string) {
	t.Helper()
	db, dir := openMatrix(t, s)
	defer func() { require.NoError(t, db.Close()) }()
	writeMatrix(t, s, end, []matrixTarget{{db: db}})
	return dir
}

// writeMatrix writes the data that ends at end, other data for each list of targets.
func writeMatrix(t *testing.T, s matrixStorage, end time.Time, lists ...[]matrixTarget) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 9))
	of := matrixSeriesList(s.histograms)
	series := slices.Repeat(of, len(lists))
	last := make([]float64, len(series))
	since := make([]int64, len(series)) // start timestamps
	gap := make([]int, len(series))
	first := end.Add(-matrixHours * time.Hour)
	for i := range since {
		since[i] = first.UnixMilli() - int64(r.IntN(60_000)) - 1
		last[i] = float64(r.IntN(1000))
	}
	for at := first; !at.After(end); at = at.Add(matrixScrape) {
		apps := map[*tsdb.DB]storage.AppenderV2{}
		for i := range series {
			m, ms := &series[i], at.UnixMilli()+int64(i%7) // of one target not at one time
			v, stale := 0.0, false
			switch {
			case gap[i] > 0:
				gap[i]--
				continue
			case r.IntN(150) == 0:
				gap[i], stale = r.IntN(40), true
				v = math.Float64frombits(value.StaleNaN)
			case !m.native:
				if v = m.next(r, last[i]); v < last[i] {
					since[i] = ms - 1 - int64(r.IntN(10_000))
				}
				last[i] = v
			}
			st := since[i]
			if !s.startTimestamps {
				st = 0
			}
			var h *histogram.Histogram
			if m.native && !stale {
				last[i]++
				h = tsdbutil.GenerateTestHistogram(int64(last[i]))
			}
			for _, to := range lists[i/len(of)] {
				app := apps[to.db]
				if app == nil {
					app = to.db.AppenderV2(context.Background())
					apps[to.db] = app
				}
				all := labels.NewBuilder(m.labels)
				to.extra.Range(func(l labels.Label) { all.Set(l.Name, l.Value) })
				_, err := app.Append(0, all.Labels(), st, ms, v, h, nil, storage.AppendV2Options{})
				require.NoError(t, err)
			}
		}
		for _, app := range apps {
			require.NoError(t, app.Commit())
		}
	}
}

// The queries of the matrix of settings: those written here, and random ones.

// matrixTemplates are queries about what settings change: external labels and series
// with such labels of their own, subqueries without a step, features, start timestamps,
// native histograms. $V is one of matrixVectors, $R one of matrixRanges.
var matrixTemplates = []string{
	// External labels.
	`count($V)`, `sum without(instance) ($V)`, `count by (cluster) ($V)`, `count by (room, replica, datacenter) ($V)`,
	`label_replace($V, "where", "$1", "cluster", "(.*)")`, `$V * on(job, instance) group_left(version) target_info`,
	`count_values("cluster", $V)`, `topk by (room) (2, $V)`, `absent($V)`, `sort_desc($V)`,
	// Subqueries without a step.
	`count_over_time($V[2m:])`, `sum_over_time(rate($R[1m])[3m:])`, `max_over_time(sum by (job) ($V)[5m:] offset 1m)`,
	`quantile_over_time(0.5, $V[4m:])`, `last_over_time($V[1m:] @ end())`,
	// Functions of ranges.
	`rate($R[2m])`, `increase($R[5m])`, `irate($R[1m])`, `resets($R[10m])`, `sum by (job) (rate($R[3m] offset 30s))`, `delta($R[2m])`,
	`avg_over_time($R[90s])`, `deriv($R[5m])`, `changes($R[7m])`, `timestamp($V)`, `quantile_over_time(1.5, $R[3m])`,
	// Features.
	`mad_over_time($R[5m])`, `sort_by_label($V, "instance")`, `limitk(3, $V)`, `limit_ratio(0.5, $V)`, `info($V)`, `ts_of_max_over_time($R[3m])`,
	`double_exponential_smoothing($R[5m], 0.5, 0.5)`, `first_over_time($R[2m])`,
	`rate($R[3m] anchored)`, `increase($R[3m] smoothed)`, `$V smoothed`, `delta($R[2m] anchored)`, `changes($R[5m] anchored)`,
	`$V + fill(0) on(job, instance) $V`, `sum by (job) ($V) / on(job) fill_right(1) sum by (job, room) ($V)`,
	`label_replace(rate($R[2m]), "n", "$1", "__name__", "(.*)")`, `rate({__name__=~"requests_total|room_events_total"}[2m])`,
	`abs({job="api"})`, `-{instance="host-0:80"}`, `start_timestamp($V)`, `max_of(1, 2) * $V`, `step() + $V`, `rate($R[step()])`, `rate($R[2m * 2])`,
	`sum by (__type__, __unit__) (typed)`, `typed * 2`, `rate(typed[2m])`,
	// Histograms.
	`histogram_quantile(0.9, sum by (le) (rate(latency_seconds_bucket[5m])))`, `histogram_quantile(0.5, native_seconds)`, `histogram_count(rate(native_seconds[3m]))`,
	`histogram_quantiles($V, "q", 0.1, 0.9)`, `sum(native_seconds) / count(native_seconds)`, `native_seconds + native_seconds`, `rate(native_seconds[2m])`,
	`histogram_avg(increase(native_seconds[4m]))`, `native_seconds </ 1`, `sum by (job) ({__name__=~"native_seconds|memory_bytes"})`,
	// What is wrong.
	`$V + on() $V`, `sum(`, `topk(scalar($V), $V)`, `label_replace($V, "", "", "", "")`, `{job="api"} * {job="db"}`, `no_such_function($V)`,
}

var matrixVectors = []string{
	`requests_total`, `memory_bytes`, `load`, `room_events_total`, `load{cluster="eu"}`, `load{cluster!="eu"}`, `memory_bytes{cluster="eu"}`,
	`memory_bytes{cluster=""}`, `room_events_total{room="5"}`, `room_events_total{room!="5"}`, `room_events_total{room=~"5|6"}`, `room_events_total{room=""}`,
	`{job="api",cluster=~".+"}`, `requests_total{replica!~"a|b"}`, `{__name__=~"load|memory_bytes",room!="5"}`, `requests_total{replica="a"}`,
}

var matrixRanges = []string{`requests_total`, `memory_bytes`, `room_events_total`, `load{cluster=~"eu|us"}`, `requests_total{code="500",replica=""}`, `room_events_total{room="5"}`}

// fillIn puts vectors and ranges into a template.
func fillIn(r *rand.Rand, template string) string {
	for _, p := range []struct {
		hole  string
		those []string
	}{{"$V", matrixVectors}, {"$R", matrixRanges}} {
		for strings.Contains(template, p.hole) {
			template = strings.Replace(template, p.hole, p.those[r.IntN(len(p.those))], 1)
		}
	}
	return template
}

// matrixQueries returns a number of queries made of the templates as they are, in turn, beginning
// with any of them, and as many random ones as asked for.
func matrixQueries(r *rand.Rand, written, random int) (out []string) {
	first := r.IntN(len(matrixTemplates))
	for i := range written {
		out = append(out, fillIn(r, matrixTemplates[(first+i)%len(matrixTemplates)]))
	}
	for range random {
		out = append(out, randomQuery(r, 1+r.IntN(3)))
	}
	return out
}

// randomQuery is a random expression of a number of levels.
func randomQuery(r *rand.Rand, depth int) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	if depth == 0 {
		return fillIn(r, pick("$V", "$V", "$V offset 1m", "$V @ end()", "native_seconds"))
	}
	in := func() string { return randomQuery(r, depth-1) }
	switch r.IntN(10) {
	case 0, 1:
		return fmt.Sprintf("%s %s (%s)", pick("sum", "avg", "min", "max", "count", "group", "stddev"), pick("by (job)", "by (job, cluster)", "without (instance, room)", "by (replica, code)"), in())
	case 2:
		return fillIn(r, fmt.Sprintf("%s($R[%s]%s)", pick("rate", "increase", "delta", "resets", "changes", "irate", "last_over_time", "sum_over_time"), pick("1m", "3m", "5m"), pick("", "", " offset 20s", " anchored", " smoothed")))
	case 3:
		return fmt.Sprintf("%s((%s)[%s:%s])", pick("max_over_time", "count_over_time", "avg_over_time", "sum_over_time"), in(), pick("2m", "4m"), pick("", "", "30s", "1m"))
	case 4:
		return fmt.Sprintf("(%s) %s %s (%s)", in(), pick("+", "-", "*", "/", ">", "== bool", "and", "or", "unless"), pick("", "on(job, instance)", "ignoring(code, room)"), in())
	case 5:
		return fmt.Sprintf("(%s) %s %s", in(), pick("+", "*", "%", ">", "<= bool"), pick("2", "0.5", "time()", "scalar(memory_bytes{instance=\"host-0:80\",job=\"api\"})"))
	case 6:
		return fmt.Sprintf("%s(%s)", pick("abs", "ceil", "-", "sgn", "hour", "sort", "absent", "timestamp", "histogram_count"), in())
	case 7:
		return fmt.Sprintf("%s(%s, %s)", pick("topk", "bottomk", "quantile"), pick("1", "2", "0.9"), in())
	case 8:
		return fmt.Sprintf(`label_replace(%s, "%s", "$1-x", "%s", "(.+)")`, in(), pick("cluster", "n", "room"), pick("__name__", "cluster", "job"))
	}
	return fmt.Sprintf("(%s) %s fill%s(%s) %s", in(), pick("+", "-", ">"), pick("", "_left", "_right"), pick("0", "1"), "("+in()+")")
}
