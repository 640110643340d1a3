//go:build clients

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/engine/compare"
)

// regions are the external labels of the leaves.
var regions = []string{"ap", "eu", "us"}

// fleet is a Prometheus for each region, and one that has the samples of all.
type fleet struct {
	regions []*process
	all     *process
	end     time.Time
}

// experimental are the features that Prometheus, promwarp and Thanos have on.
const experimental = "--enable-feature=promql-experimental-functions"

// startFleet starts all Prometheis, over the data of the matrix of settings.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{end: time.Now().Add(-10 * time.Minute).Truncate(time.Minute)}
	storage := matrixStorage{histograms: true}
	var lists [][]matrixTarget
	everything, allDir := openMatrix(t, storage)
	var dirs []string
	for _, region := range regions {
		db, dir := openMatrix(t, storage)
		dirs = append(dirs, dir)
		lists = append(lists, []matrixTarget{{db: db}, {everything, labels.FromStrings("region", region)}})
	}
	writeMatrix(t, storage, f.end, lists...)
	for _, list := range lists {
		require.NoError(t, list[0].db.Close())
	}
	require.NoError(t, everything.Close())
	start := func(dir, config string) *process {
		addr := mustFreeAddr(t)
		return runServer(t, "Prometheus", addr, prometheusBin, append(programs.PrometheusArgs(addr, dir, writeConfig(t, config)), experimental)...)
	}
	for i, dir := range dirs {
		f.regions = append(f.regions, start(dir, fmt.Sprintf("global: {external_labels: {region: %s}}\n", regions[i])))
	}
	f.all = start(allDir, "")
	return f
}

// leaf starts a promwarp that a Querier reads from, and returns it and its address for gRPC.
func leaf(t *testing.T, upstream string, flags ...string) (p *process, grpc string) {
	t.Helper()
	addr, grpc := mustFreeAddr(t), mustFreeAddr(t)
	args := append(promwarpArgs(addr, upstream), "--grpc.listen-address="+grpc, "--upstream.external-labels=keep")
	return runServer(t, "promwarp", addr, promwarpBin, append(args, flags...)...), grpc
}

// distributed are the flags of a Querier that has its leaves evaluate.
var distributed = []string{"--query.mode=distributed", "--query.promql-engine=thanos", experimental}

// leafQuerier starts a Querier over an endpoint, with Prometheus's engine, as a leaf of another, and returns its
// address for gRPC.
func leafQuerier(t *testing.T, bin, endpoint string) (grpc string) {
	t.Helper()
	grpc = mustFreeAddr(t)
	querier(t, bin, []string{endpoint}, "--grpc-address="+grpc, "--query.promql-engine=prometheus", experimental)
	return grpc
}

// ofRegion has all selectors of a query match one region, where the query parses.
func ofRegion(query, region string) string {
	expr, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(query)
	if err != nil {
		return query
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, "region", region))
		}
		return nil
	})
	return expr.String()
}

// passed are the words that Thanos puts before what a leaf warns of, and details of a query that it
// rewrote: positions, and what histogram_quantile mended.
var passed = regexp.MustCompile(`remote query warning \([^)]*\): | \(\d+:\d+\)|, from buckets .*`)

// oneSided are the beginnings of what one of the two alone warns of: Prometheus where a range query sorts, and the
// root where label_replace may write a label that tells leaves apart.
var oneSided = []string{
	"PromQL warning: sort is ineffective",
	"PromQL warning: rewriting an external label with label_replace can disable distributed query execution",
}

// parsed is an answer that can be compared: warnings and infos are one list for Thanos, and vectors are
// in no order but where they are sorted, and there series of equal values are in none.
func parsed(t *testing.T, a answer, ordered bool) *compare.Answer {
	t.Helper()
	said, err := compare.Parse(a.code, a.body)
	var refused *compare.Refused
	if errors.As(err, &refused) {
		return &compare.Answer{Err: err}
	}
	require.NoError(t, err)
	said.Warnings, said.Infos = annotationsOf(said), nil
	if said.Type == parser.ValueTypeVector && !ordered {
		said.Sort()
	}
	for first, next := 0, 0; ordered && first < len(said.Series); first = next {
		for next < len(said.Series) && sameValue(said.Series[first], said.Series[next]) {
			next++
		}
		slices.SortFunc(said.Series[first:next], func(a, b compare.Series) int { return labels.Compare(a.Labels, b.Labels) })
	}
	return said
}

// sameValue reports whether two series of a vector have the same value, as a series and itself do.
func sameValue(a, b compare.Series) bool {
	same := func(p, q promql.FPoint) bool { return p.F == q.F || p.F != p.F && q.F != q.F }
	return slices.EqualFunc(a.Floats, b.Floats, same) && len(a.Histograms) == len(b.Histograms)
}

func annotationsOf(a *compare.Answer) (all []string) {
	for _, text := range append(a.Warnings, a.Infos...) {
		for _, one := range strings.Split(text, ", PromQL") {
			one = passed.ReplaceAllString(one, "")
			if !strings.HasPrefix(one, "PromQL") {
				one = "PromQL" + one
			}
			if !slices.ContainsFunc(oneSided, func(begin string) bool { return strings.HasPrefix(one, begin) }) {
				all = append(all, one)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ofWhich are series in the text of an error. Which of several are named differs between leaves.
var ofWhich = regexp.MustCompile(`\{[^}]*\}`)

// handedOn is the text of an error of a leaf, which Thanos puts words before.
func handedOn(err error) (text string, ok bool) {
	_, text, ok = strings.Cut(err.Error(), " desc = ")
	return text, ok
}

// differs says how an answer through Thanos differs from one that is right, by more than tolerance. Of an error that
// the root itself has, the text is Thanos's own; of one that a leaf has of its part, the series are that leaf's.
func differs(want, got *compare.Answer, tolerance float64) error {
	switch {
	case want.Err != nil && got.Err != nil:
		text, ok := handedOn(got.Err)
		right := want.Err.Error()
		if said, ok := handedOn(want.Err); ok {
			right = said
		}
		if tolerance > 0 {
			text, right = ofWhich.ReplaceAllString(text, "{}"), ofWhich.ReplaceAllString(right, "{}")
		}
		if ok && text != right {
			return fmt.Errorf("error %s instead of %s", text, right)
		}
		return nil
	case want.Err != nil || got.Err != nil:
		return fmt.Errorf("error %v instead of %v", got.Err, want.Err)
	}
	if d := compare.Differ(want, got, tolerance); d != nil {
		return errors.New(d.String())
	}
	return nil
}

// unsigned is an answer whose zeros have no sign: a Querier as a leaf sends 0 for -0.
func unsigned(a *compare.Answer) *compare.Answer {
	b := *a
	b.Series = slices.Clone(a.Series)
	for i := range b.Series {
		floats := slices.Clone(b.Series[i].Floats)
		for k := range floats {
			floats[k].F += 0 // -0 + 0 is 0
		}
		b.Series[i].Floats = floats
	}
	return &b
}

// sameValues reports whether two answers have the same values at each moment, of whichever series.
func sameValues(want, got *compare.Answer) bool {
	at := func(a *compare.Answer) map[int64][]float64 {
		values := map[int64][]float64{}
		for _, s := range a.Series {
			for _, p := range s.Floats {
				values[p.T] = append(values[p.T], p.F)
			}
		}
		for _, of := range values {
			slices.Sort(of)
		}
		return values
	}
	near := func(v, w float64) bool {
		return v == w || v != v && w != w || math.Abs(v-w) <= tolerance*max(math.Abs(v), math.Abs(w))
	}
	return maps.EqualFunc(at(want), at(got), func(v, w []float64) bool { return slices.EqualFunc(v, w, near) })
}

// leafQueries are queries that parse without Prometheus's other features, and every twentieth of those that do not.
func leafQueries(r *rand.Rand, written, random int) (all []string) {
	refused := 0
	parses := func(q string) bool {
		if _, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(q); err == nil {
			return true
		}
		refused++
		return refused%20 == 0
	}
	for len(all) < written+random {
		q := matrixQueries(r, 1, 0)
		if len(all) >= written {
			q = matrixQueries(r, 0, 1)
		}
		if parses(q[0]) {
			all = append(all, q[0])
		}
	}
	return all
}

// TestLeaf: a distributed Querier over three leaves answers as one Prometheus that has all samples, or, where
// Thanos's engine answers otherwise, as it does over three Queriers, each before a sidecar. What one leaf answers alone
// has Prometheus's very bits.
func TestLeaf(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	written, err := envInt("E2E_WRITTEN", 300)
	require.NoError(t, err)
	random, err := envInt("E2E_RANDOM", 500)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	f := startFleet(t)
	var leaves, sidecars []string
	for _, up := range f.regions {
		_, grpc := leaf(t, up.URL, "--query.exact=bits")
		leaves = append(leaves, grpc)
		sidecars = append(sidecars, leafQuerier(t, bin, sidecar(t, bin, up.URL)))
	}
	root, second := querier(t, bin, leaves, distributed...), querier(t, bin, sidecars, distributed...)
	within := url.Values{"start": {seconds(f.end.Add(-time.Hour))}, "end": {seconds(f.end)}}.Encode()
	for _, list := range []string{
		"labels?", "label/region/values?", "label/job/values?", "label/room/values?match[]=load&", "labels?match[]={job=~\"a.*\",region!=\"eu\"}&", "series?match[]=load&match[]=native_seconds{region=\"us\"}&",
	} {
		require.JSONEq(t, fetch(t, f.all.URL+"/api/v1/"+list+within), fetch(t, root.URL+"/api/v1/"+list+within), list)
	}

	r := rand.New(rand.NewPCG(uint64(seed), 1))
	counts, allowed := map[string]int{}, 0
	allow := func(reason, q string, err error) {
		t.Logf("%s: %s: %v", reason, q, err)
		counts[reason]++
		allowed++
	}
	for i, q := range leafQueries(r, int(written), int(random)) {
		bits := i%3 == 0
		switch i % 3 {
		case 0:
			q = ofRegion(q, regions[r.IntN(3)])
		case 1:
			q = strings.ReplaceAll(q, "cluster", "region")
		}
		if !bits { // which series limitk keeps is left to which leaf answers first
			q = strings.ReplaceAll(q, "limitk", "topk")
		}
		path, form := matrixForm(r, q, f.end)
		form.Set("partial_response", "false")
		reply := func(url string) *compare.Answer {
			return parsed(t, ask(t, url, path, form), strings.HasPrefix(q, "sort"))
		}
		want, got := reply(f.all.URL), reply(root.URL)
		tolerance := 0.0
		if !bits {
			tolerance = 1e-12
		}
		err := differs(want, got, tolerance)
		// Prometheus has the series of some functions in the order of a map, which last bits depend on, and all
		// of what is ill-conditioned.
		chance := false
		for n := 0; err != nil && !chance && n < 20; n++ {
			again := reply(f.all.URL)
			chance = want.Err == nil && differs(want, again, tolerance) != nil
			err = differs(again, got, tolerance)
		}
		if chance {
			err = differs(want, got, 1e-9)
		}
		other := err
		// Of equal values topk keeps those of the leaf that answers first.
		for n := 0; other != nil && n < 20; n++ {
			if other = differs(unsigned(reply(second.URL)), unsigned(got), tolerance); other != nil && n%4 == 3 {
				got = reply(root.URL)
			}
		}
		ties := (!bits || chance) && (strings.Contains(q, "topk") || strings.Contains(q, "bottomk"))
		switch {
		case chance && want.Err == nil && err == nil:
			allow("last bits that Prometheus leaves to chance", q, differs(want, got, tolerance))
		case want.Err != nil && err == nil:
			if _, ok := handedOn(got.Err); ok {
				counts["errors of leaves"]++
			}
			counts["errors"]++
		case err == nil && len(want.Series) == 0:
			counts["empty"]++
		case err == nil && bits:
			counts["bit for bit"]++
		case err == nil:
			counts["the same"]++
		case other == nil:
			counts["as through sidecars"]++
		case ties && want.Err == nil && got.Err == nil && sameValues(want, got):
			allow("other series of equal values", q, err)
		case strings.HasPrefix(q, "sort_by_label") && want.Err == nil && got.Err == nil && sameValues(want, got):
			allow("another order of equal labels", q, err) // the Querier's; Prometheus compares all labels then
		default:
			counts["different"]++
			if counts["different"] <= 10 {
				t.Errorf("%s?%s\n%s: %v\nthan through sidecars: %v", path, form.Encode(), q, err, other)
			}
		}
	}
	t.Logf("%v", counts)
	require.Zero(t, counts["different"])
	asked := int(written + random)
	require.Greater(t, counts["bit for bit"], asked/10)
	require.Greater(t, counts["the same"], asked/10)
	require.Positive(t, counts["errors of leaves"])
	require.Less(t, counts["as through sidecars"], asked/5)
	require.LessOrEqual(t, allowed, asked/200)
}

// slowQuery takes a while on any leaf, and is pushed down.
const slowQuery = `sum(quantile_over_time(0.7, {job=~".+",__name__=~".+"}[1h]))`

// TestLeafFails: a leaf that is killed or stalls fails a query, or leaves it without its part and with a warning, as
// the query asks for; the others and later queries are not held up. 64 queries at once have the answer of one.
func TestLeafFails(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	f := startFleet(t)
	var leaves []*process
	var addresses []string
	for _, up := range f.regions {
		p, grpc := leaf(t, up.URL)
		leaves, addresses = append(leaves, p), append(addresses, grpc)
	}
	root := querier(t, bin, addresses, append(slices.Clone(distributed), "--query.timeout=20s", "--query.max-concurrent=64")...)
	count := func(partial string) *compare.Answer {
		form := instantForm("count by (region) (load)", f.end)
		form.Set("partial_response", partial)
		return parsed(t, ask(t, root.URL, "/api/v1/query", form), false)
	}
	require.Len(t, count("false").Series, 3)

	t.Run("64 at once", func(t *testing.T) {
		form := grid{f.end.Add(-time.Hour), f.end, 15 * time.Second}.rangeForm(`sum by (job) (rate(requests_total[5m]))`)
		want := parsed(t, ask(t, f.all.URL, "/api/v1/query_range", form), false)
		var wg errgroup.Group
		for range 64 {
			wg.Go(func() error {
				a, err := post(t.Context(), root.URL, "/api/v1/query_range", form)
				if err != nil {
					return err
				}
				return differs(want, parsed(t, a, false), 1e-12)
			})
		}
		require.NoError(t, wg.Wait())
	})

	t.Run("cancelled", func(t *testing.T) {
		form := grid{f.end.Add(-time.Hour), f.end, time.Second}.rangeForm(slowQuery)
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = post(ctx, root.URL, "/api/v1/query_range", form) }()
		running := func() bool {
			return strings.Contains(fetch(t, leaves[0].URL+"/api/v1/status/queries"), "quantile_over_time")
		}
		require.Eventually(t, running, 20*time.Second, time.Millisecond)
		leave()
		began := time.Now()
		require.Eventually(t, func() bool { return !running() }, 20*time.Second, time.Millisecond)
		t.Logf("the leaf was free %s after the client had left", time.Since(began))
	})

	t.Run("stalls", func(t *testing.T) {
		leaves[0].signal(syscall.SIGSTOP)
		defer leaves[0].signal(syscall.SIGCONT)
		require.Eventually(t, func() bool {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", leaves[0].Cmd.Process.Pid))
			return err == nil && strings.Contains(string(state), ") T ")
		}, 10*time.Second, time.Millisecond)
		form := instantForm("count by (region) (load)", f.end)
		form.Set("timeout", "2s")
		form.Set("partial_response", "false")
		began := time.Now()
		a := ask(t, root.URL, "/api/v1/query", form)
		require.NotEqual(t, http.StatusOK, a.code, "%s", a.body)
		require.Less(t, time.Since(began), 15*time.Second)
		form.Set("query", `count by (region) (load{region="eu"})`)
		require.Len(t, parsed(t, ask(t, root.URL, "/api/v1/query", form), false).Series, 1, "other leaves answer")
	})
	require.Eventually(t, func() bool { return len(count("false").Series) == 3 }, time.Minute, 100*time.Millisecond, "the leaf is back")

	for _, partial := range []string{"false", "true"} {
		t.Run("killed, partial response "+partial, func(t *testing.T) {
			form := grid{f.end.Add(-time.Hour), f.end, 5 * time.Second}.rangeForm(slowQuery)
			form.Set("partial_response", partial)
			said := make(chan answer, 1)
			go func() {
				a, _ := post(t.Context(), root.URL, "/api/v1/query_range", form)
				said <- a
			}()
			killed, address := leaves[len(leaves)-1], addresses[len(leaves)-1]
			leaves = leaves[:len(leaves)-1]
			require.Eventually(t, func() bool {
				return strings.Contains(fetch(t, killed.URL+"/api/v1/status/queries"), "quantile_over_time")
			}, 20*time.Second, time.Millisecond)
			killed.Kill()
			a := <-said
			if partial == "false" {
				require.NotEqual(t, http.StatusOK, a.code, "%s", a.body)
				require.Contains(t, string(a.body), "remote exec error")
				return
			}
			got := parsed(t, a, false)
			require.NoError(t, got.Err)
			require.Contains(t, fmt.Sprint(got.Warnings), "remote query error ("+address+")", "%.300s", a.body)
			require.NotEmpty(t, got.Series, "what other leaves have")
		})
	}
}

// TestLeafReplicas: of two leaves that differ in a label of replicas, which promwarp takes off, a Querier has one
// answer; without that setting it says what is to be set.
func TestLeafReplicas(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	dir := writeMatrixData(t, matrixStorage{}, end)
	addr := mustFreeAddr(t)
	up := runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, dir, writeConfig(t, "global: {external_labels: {region: eu, replica: a}}\n"))...)
	for flag, code := range map[string]int{"--upstream.replica-labels=replica": http.StatusOK, "--log.level=info": http.StatusUnprocessableEntity} {
		_, grpc := leaf(t, up.URL, flag)
		root := querier(t, bin, []string{grpc}, append(slices.Clone(distributed), "--query.replica-label=replica")...)
		form := instantForm("load", end)
		form.Set("partial_response", "false")
		got := ask(t, root.URL, "/api/v1/query", form)
		require.Equal(t, code, got.code, "%s", got.body)
		if code != http.StatusOK {
			require.Contains(t, string(got.body), "upstream.replica_labels")
			continue
		}
		for _, s := range parsed(t, got, false).Series {
			require.Equal(t, "eu", s.Labels.Get("region"))
			require.False(t, s.Labels.Has("replica"))
		}
	}
}
