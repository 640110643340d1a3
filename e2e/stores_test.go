//go:build clients

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/engine/compare"
)

// thanosStores are stores of Thanos of all kinds over three Prometheis, and a Querier with Prometheus's
// engine over each kind.
type thanosStores struct {
	sidecars []string // addresses for gRPC
	gateway  string
	// querier is the address for gRPC of a Querier over all of them, which is a store, too.
	querier string
	// Queriers with Prometheus's engine over sidecars, over the store gateway, and over both.
	overSidecars, overGateway, overAll *process
	// A Prometheus with all samples, and one with the samples of the store gateway.
	whole, blocks *process
	end           time.Time
}

// withEngine are the flags of a Querier that evaluates as Prometheus does.
var withEngine = []string{"--query.promql-engine=prometheus", "--enable-feature=promql-experimental-functions"}

// startThanosStores starts them. A folder that is a bucket has blocks of each Prometheus's older samples.
func startThanosStores(t *testing.T) *thanosStores {
	t.Helper()
	bin, err := buildThanos()
	if err != nil {
		t.Fatalf("there is no Thanos to test with: %v; make clients builds it, which takes minutes and the module proxy", err)
	}
	s := &thanosStores{end: time.Now().Add(-10 * time.Minute).Truncate(time.Minute)}
	bucket := t.TempDir()
	objstore := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(objstore, []byte(fmt.Sprintf("type: FILESYSTEM\nconfig: {directory: %s}\n", bucket)), 0o600))
	data := writeMatrixData(t, matrixStorage{histograms: true}, s.end)
	for _, region := range storeRegions {
		dir := t.TempDir()
		blocksOf(t, dir, data, s.end)
		addr, grpc, web := mustFreeAddr(t), mustFreeAddr(t), mustFreeAddr(t)
		config := fmt.Sprintf("global: {external_labels: {region: %s, thanos_replica: a}}\n", region)
		up := prometheus(t, addr, dir, config)
		runServer(t, "Thanos sidecar", web, bin, "sidecar", "--prometheus.url="+up.URL, "--prometheus.get_config_interval=1s", "--tsdb.path="+dir,
			"--http-address="+web, "--grpc-address="+grpc, "--objstore.config-file="+objstore)
		s.sidecars = append(s.sidecars, grpc)
	}
	require.Eventually(t, func() bool { return uploaded(bucket) >= 3 }, time.Minute, 100*time.Millisecond, "blocks are uploaded")
	s.gateway = mustFreeAddr(t)
	web := mustFreeAddr(t)
	runServer(t, "Thanos store gateway", web, bin, "store", "--data-dir="+t.TempDir(), "--objstore.config-file="+objstore,
		"--http-address="+web, "--grpc-address="+s.gateway, "--sync-block-duration=1s", "--block-sync-concurrency=2")
	s.overSidecars, _ = s.query(t, bin, s.sidecars...)
	s.overGateway, _ = s.query(t, bin, s.gateway)
	s.overAll, s.querier = s.query(t, bin, append([]string{s.gateway}, s.sidecars...)...)
	engine := func(dir string) *process {
		addr := mustFreeAddr(t)
		args := append(programs.PrometheusArgs(addr, dir, writeConfig(t, "")), "--enable-feature=promql-experimental-functions")
		return runServer(t, "Prometheus", addr, prometheusBin, args...)
	}
	s.whole = engine(everythingOf(t, data, s.end.Add(time.Hour)))
	s.blocks = engine(everythingOf(t, data, s.end.Add(-blockedSince)))
	return s
}

// storeRegions are the external labels of the Prometheis behind sidecars.
var storeRegions = []string{"ap", "eu", "us"}

// query starts a Querier over endpoints, and waits until it knows them.
func (s *thanosStores) query(t *testing.T, bin string, endpoints ...string) (p *process, grpc string) {
	t.Helper()
	web, grpc := mustFreeAddr(t), mustFreeAddr(t)
	args := append([]string{"query", "--http-address=" + web, "--grpc-address=" + grpc, "--query.replica-label=none"}, withEngine...)
	for _, e := range endpoints {
		args = append(args, "--endpoint="+e)
	}
	p = runServer(t, "Thanos Query", web, bin, args...)
	require.Eventually(t, func() bool {
		known := fetch(t, p.URL+"/api/v1/stores")
		for _, e := range endpoints {
			if !strings.Contains(known, fmt.Sprintf(`"name":%q`, e)) {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond, "stores are known")
	return p, grpc
}

// blockedSince is how long before the end of the data the blocks of the bucket end.
const blockedSince = 50 * time.Minute

// blocksOf copies the data in from to dir, and makes a block of what is older than blockedSince.
func blocksOf(t *testing.T, dir, from string, end time.Time) {
	t.Helper()
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	db := openEmpty(t, dir)
	db.DisableCompactions()
	until := end.Add(-blockedSince).UnixMilli()
	require.NoError(t, db.CompactHead(tsdb.NewRangeHead(db.Head(), db.Head().MinTime(), until-1)))
	require.Len(t, db.Blocks(), 1)
	require.NoError(t, db.Close())
}

func openEmpty(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.RetentionDuration = (10 * 365 * 24 * time.Hour).Milliseconds()
	db, err := tsdb.Open(dir, nil, nil, o, nil)
	require.NoError(t, err)
	return db
}

// everythingOf writes into a new folder what the Prometheis of all regions have before until together, with
// their external labels, as they would come in by scrapes in label order.
func everythingOf(t *testing.T, from string, until time.Time) (dir string) {
	t.Helper()
	src := openEmpty(t, from)
	defer func() { require.NoError(t, src.Close()) }()
	q, err := src.Querier(0, until.UnixMilli()-1)
	require.NoError(t, err)
	defer q.Close()
	type sample struct {
		t int64
		v float64
		h *histogram.Histogram
	}
	var all []labels.Labels
	samples := map[string][]sample{}
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		var of []sample
		it := set.At().Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			one := sample{t: it.AtT()}
			if kind == chunkenc.ValFloat {
				_, one.v = it.At()
			} else {
				_, one.h = it.AtHistogram(nil)
			}
			of = append(of, one)
		}
		for _, region := range storeRegions {
			l := labels.NewBuilder(set.At().Labels()).Set("region", region).Set("thanos_replica", "a").Labels()
			all, samples[l.String()] = append(all, l), of
		}
	}
	require.NoError(t, set.Err())
	slices.SortFunc(all, labels.Compare)
	dir = t.TempDir()
	db := openEmpty(t, dir)
	for left := true; left; {
		left = false
		next := int64(math.MaxInt64)
		for _, of := range samples {
			if len(of) > 0 {
				next = min(next, of[0].t)
			}
		}
		app := db.Appender(context.Background())
		for _, l := range all {
			of := samples[l.String()]
			for len(of) > 0 && of[0].t < next+matrixScrape.Milliseconds() {
				left = true
				if of[0].h != nil {
					_, err = app.AppendHistogram(0, l, of[0].t, of[0].h, nil)
				} else {
					_, err = app.Append(0, l, of[0].t, of[0].v)
				}
				require.NoError(t, err)
				of = of[1:]
			}
			samples[l.String()] = of
		}
		require.NoError(t, app.Commit())
	}
	require.NoError(t, db.Close())
	return dir
}

// uploaded is how many blocks a bucket has as a whole.
func uploaded(bucket string) (n int) {
	_ = filepath.WalkDir(bucket, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "meta.json" {
			n++
		}
		return nil
	})
	return n
}

// downsampledGateway starts a store gateway over a bucket with a block of 12 days, which Thanos has made blocks
// of 5 min and 1 h of, and a Querier with Prometheus's engine over the gateway.
func downsampledGateway(t *testing.T, end time.Time) (gateway string, querier *process) {
	t.Helper()
	bin, err := buildThanos()
	if err != nil {
		t.Fatalf("there is no Thanos to test with: %v; make clients builds it, which takes minutes and the module proxy", err)
	}
	dir, bucket := t.TempDir(), t.TempDir()
	objstore := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(objstore, []byte(fmt.Sprintf("type: FILESYSTEM\nconfig: {directory: %s}\n", bucket)), 0o600))
	const scrape = 50 * time.Second // does not divide 5 min windows evenly
	w, err := tsdb.NewBlockWriter(promslog.NewNopLogger(), dir, (14 * 24 * time.Hour).Milliseconds())
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	values := map[string]float64{}
	for at := end.Add(-12 * 24 * time.Hour); at.Before(end); at = at.Add(scrape) {
		app := w.Appender(t.Context())
		for _, instance := range []string{"a", "b", "c"} {
			for _, name := range []string{"steady_total", "falling_total", "load"} {
				l := labels.FromStrings("__name__", name, "instance", instance)
				switch v := values[name+instance]; {
				case name == "load":
					values[name+instance] = math.Round(100*r.NormFloat64()) / 8
				case name == "falling_total" && r.IntN(400) == 0:
					values[name+instance] = float64(r.IntN(20))
				default:
					values[name+instance] = v + float64(r.IntN(10))
				}
				_, err := app.Append(0, l, at.UnixMilli(), values[name+instance])
				require.NoError(t, err)
			}
		}
		require.NoError(t, app.Commit())
	}
	_, err = w.Flush(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	out, err := exec.CommandContext(t.Context(), bin, "tools", "bucket", "upload-blocks", "--path="+dir, "--label=region=\"eu\"", "--objstore.config-file="+objstore).CombinedOutput()
	require.NoError(t, err, "%s", out)
	web := mustFreeAddr(t)
	runServer(t, "Thanos downsample", web, bin, "tools", "bucket", "downsample", "--data-dir="+t.TempDir(), "--objstore.config-file="+objstore, "--http-address="+web)
	require.Eventually(t, func() bool { return uploaded(bucket) == 3 }, time.Minute, 100*time.Millisecond, "raw, 5m, 1h")
	gateway, web = mustFreeAddr(t), mustFreeAddr(t)
	runServer(t, "Thanos store gateway", web, bin, "store", "--data-dir="+t.TempDir(), "--objstore.config-file="+objstore,
		"--http-address="+web, "--grpc-address="+gateway, "--ignore-deletion-marks-delay=0s")
	s := &thanosStores{}
	querier, _ = s.query(t, bin, gateway)
	return gateway, querier
}

// TestStoresResolution: with max_resolution promwarp over a store gateway answers, first and repeated, as a
// Querier with the same max_source_resolution does: bit for bit, but for counters that were reset, whose
// increase is the same and is extrapolated otherwise.
func TestStoresResolution(t *testing.T) {
	end := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	gateway, querier := downsampledGateway(t, end)
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	random, err := envInt("E2E_RANDOM", 100)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 5))
	for _, resolution := range []string{"5m", "1h"} {
		pw := overStores(t, "{address: \""+gateway+"\", max_resolution: "+resolution+"}")
		raw := overStores(t, "address: "+gateway)
		queries := map[string]float64{ // with how far they may differ
			"load": 0, "avg by (region) (load)": 1e-12, "min(load)": 0, "max(load)": 0, "count(load)": 0, "sum(load)": 1e-12,
			"avg_over_time(load[1d])": 1e-12, "min_over_time(load[6h])": 0, "max_over_time(load[1d])": 0, "sum_over_time(load[1d])": 1e-12,
			"count_over_time(load[1d])": 0, "stddev_over_time(load[1d])": 1e-12, "delta(load[12h])": 1e-12, "quantile_over_time(0.9, load[1d])": 1e-12,
			"rate(steady_total[6h])": 1e-12, "sum(increase(steady_total[1d]))": 1e-12, "irate(steady_total[3h])": 1e-12, "steady_total": 1e-12,
			"rate(steady_total[5m])": 1e-12, "rate(steady_total[30m])": 1e-12, "sum(rate(steady_total[6h])) / avg(max_over_time(load[1d]))": 1e-12,
			"rate(falling_total[1d])": 0.03, "sum(increase(falling_total[3d]))": 0.01, "max_over_time(rate(steady_total[6h])[1d:1h])": 1e-12,
		}
		for range random {
			f, of := pick(r, "avg", "min", "max", "sum", "count", "stddev", "last", "present")+"_over_time(%s[%s])", pick(r, "load", "steady_total")
			if r.IntN(2) == 0 {
				f, of = pick(r, "rate(%s[%s])", "increase(%s[%s])", "irate(%s[%s])", "deriv(%s[%s])", "idelta(%s[%s])", "delta(%s[%s])", "changes(%s[%s])"), "steady_total"
			}
			if f = fmt.Sprintf(f, of, pick(r, "7m", "25m", "1h", "2h5m", "6h", "1d", "50h")); r.IntN(2) == 0 {
				f = pick(r, "sum", "avg by (instance)", "max", "count", "quantile by (region) (0.3, ", "topk(2, ") + "(" + f + ")"
				f += strings.Repeat(")", strings.Count(f, "(")-strings.Count(f, ")"))
			}
			queries[f] = 1e-9
		}
		counts := map[bool]int{} // by whether there is an answer
		for q, tolerance := range queries {
			for _, step := range []time.Duration{time.Hour, 7 * time.Hour, time.Duration(2+r.IntN(500)) * time.Minute} {
				form := url.Values{
					"query": {q}, "start": {seconds(end.Add(-11 * 24 * time.Hour).Add(7 * time.Minute))}, "end": {seconds(end.Add(-time.Hour))}, "step": {step.String()},
					"max_source_resolution": {resolution}, "dedup": {"false"}, "partial_response": {"false"},
				}
				reply := func(of *process) *compare.Answer {
					a := ask(t, of.URL, "/api/v1/query_range", form)
					said, err := compare.Parse(a.code, a.body)
					require.NoError(t, err, q)
					return said
				}
				want := reply(querier)
				counts[len(want.Series) > 0]++
				for _, when := range []string{"first", "repeated"} {
					d := compare.Differ(unannotated(want), unannotated(reply(pw)), tolerance)
					if d != nil {
						t.Errorf("%s, %s every %s, %s: %v", resolution, q, step, when, d)
					}
				}
			}
		}
		t.Log(resolution, counts)
		require.Greater(t, counts[true], 4*counts[false])
		require.NotEqual(t, fetch(t, pw.URL+"/api/v1/query?query=load&time="+seconds(end.Add(-time.Hour))), fetch(t, raw.URL+"/api/v1/query?query=load&time="+seconds(end.Add(-time.Hour))), "raw samples are something else")
	}
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// overStores starts a promwarp that reads from stores.
func overStores(t *testing.T, entries ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	require.NoError(t, os.WriteFile(file, []byte("stores:\n- "+strings.Join(entries, "\n- ")+"\nenable_feature: promql-experimental-functions\nquery: {exact: bits}\n"), 0o600))
	addr := mustFreeAddr(t)
	return runServer(t, "promwarp", addr, promwarpBin, "serve", "--config.file="+file, "--web.listen-address="+addr)
}

// unannotated is an answer without what is said about it.
func unannotated(a *compare.Answer) *compare.Answer {
	b := *a
	b.Warnings, b.Infos = nil, nil
	return &b
}

// TestStores: promwarp over stores of each kind answers, first and repeated, bit for bit what a Prometheus answers
// that has the same samples, and what a Querier with Prometheus's engine answers over the same stores, to
// E2E_WRITTEN written and E2E_RANDOM random queries. Where these two differ Prometheus counts: a Querier takes
// counter resets out of samples before its engine sees them, and its engine is of an older version.
// Lists are the Querier's.
func TestStores(t *testing.T) {
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	written, err := envInt("E2E_WRITTEN", 300)
	require.NoError(t, err)
	random, err := envInt("E2E_RANDOM", 500)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	s := startThanosStores(t)
	for n, one := range []struct {
		name                string
		entries             []string
		prometheus, querier *process
		end                 time.Time // of what is asked for
	}{
		{"three sidecars", []string{"address: " + s.sidecars[0], "{address: \"" + s.sidecars[1] + "\", name: eu}", "address: " + s.sidecars[2]}, s.whole, s.overSidecars, s.end},
		{"a store gateway", []string{"address: " + s.gateway}, s.blocks, s.overGateway, s.end.Add(-blockedSince)},
		{"a Querier", []string{"{address: \"" + s.querier + "\", on_failure: warn}"}, s.whole, s.overAll, s.end},
		{"sidecars and a store gateway", []string{"address: " + s.sidecars[0], "address: " + s.gateway, "address: " + s.sidecars[1], "address: " + s.sidecars[2]}, s.whole, s.overAll, s.end},
	} {
		t.Run(one.name, func(t *testing.T) {
			pw := overStores(t, one.entries...)
			within := url.Values{"start": {seconds(s.end.Add(-3 * time.Hour))}, "end": {seconds(s.end)}}.Encode()
			for _, list := range []string{
				"labels?", "label/region/values?", "label/job/values?", "label/room/values?match[]=room_events_total&", `labels?match[]={job=~"a.*",region!="eu"}&`,
				`series?match[]=load&match[]=native_seconds{region="us"}&`,
			} {
				want := fetch(t, one.querier.URL+"/api/v1/"+list+within+"&dedup=false")
				require.JSONEq(t, want, fetch(t, pw.URL+"/api/v1/"+list+within), list)
				require.NotContains(t, want, `"data":[]`, list)
			}
			r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			counts := map[string]int{}
			for _, q := range matrixQueries(r, int(written), int(random)) {
				q = strings.ReplaceAll(q, "cluster", []string{"cluster", "region"}[r.IntN(2)])
				path, form := matrixForm(r, q, one.end)
				form.Set("dedup", "false")
				reply := func(of *process) *compare.Answer {
					a := ask(t, of.URL, path, form)
					said, err := compare.Parse(a.code, a.body)
					if errors.As(err, new(*compare.Refused)) {
						return nil
					}
					require.NoError(t, err, q)
					if said.Type == parser.ValueTypeVector && !strings.Contains(q, "sort") {
						said.Sort()
					}
					return said
				}
				want, thanos := reply(one.prometheus), reply(one.querier)
				for _, when := range []string{"first", "repeated"} {
					got := reply(pw)
					if want == nil || got == nil {
						require.Equal(t, want == nil, got == nil, "%s, %s?%s %s", q, path, form.Encode(), when)
						counts["errors"]++
						continue
					}
					d := compare.Differ(want, got, 0)
					chance := false
					for i := 0; d != nil && i < 20 && !chance; i++ { // Prometheus goes through some maps
						again := reply(one.prometheus)
						chance = compare.Differ(again, got, 0) == nil || compare.Differ(want, again, 0) != nil
					}
					switch {
					case chance:
						counts["left to chance by Prometheus"]++
					case d != nil:
						t.Errorf("%s, %s?%s %s: %v", q, path, form.Encode(), when, d)
						counts["wrong"]++
					case len(want.Series) == 0:
						counts["empty"]++
					case thanos != nil && compare.Differ(unannotated(thanos), unannotated(got), 0) == nil:
						counts["bit for bit both"]++
					default:
						counts["bit for bit Prometheus, and the Querier otherwise"]++
					}
				}
			}
			t.Log(counts)
			all := 2 * int(written+random)
			require.Greater(t, counts["bit for bit both"], all/4)
			require.Less(t, counts["left to chance by Prometheus"], all/10)
		})
	}
}
