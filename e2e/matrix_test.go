package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	args := append(prometheusArgs(addr, dataDir, c.file), "--web.enable-lifecycle")
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
	resp, err := http.Post(c.url+"/-/reload", "", nil)
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
							pw := promwarp(t, prom.url)
							cell++
							r := rand.New(rand.NewPCG(uint64(seed), cell))
							compareMatrix(t, prom.url, pw.url, r, matrixQueries(r, int(written), int(random)), end)
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
	args := append(prometheusArgs(addr, writeMatrixData(t, matrixStorage{}, end), writeConfig(t, "")), "--query.lookback-delta=45s")
	prom := runServer(t, "Prometheus", addr, prometheusBin, args...)
	r := rand.New(rand.NewPCG(3, 4))
	compareMatrix(t, prom.url, promwarp(t, prom.url).url, r, matrixQueries(r, 60, 60), end)
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
		config += fmt.Sprintf("- {name: %s, url: %s/api/v1/read}\n", replica, prom.url)
		if first == nil {
			first = prom
		}
	}
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, "serve", "--config.file="+writeConfig(t, config), "--web.listen-address="+addr)
	r := rand.New(rand.NewPCG(5, 6))
	compareMatrix(t, first.url, pw.url, r, matrixQueries(r, 100, 100), end)
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
			allowed[i] = append(allowed[i], ask(t, prom.url, "/api/v1/query_range", forms[i]))
		}
	}

	// A cache that keeps nothing has to ask each time.
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, prom.url), "--cache.host-bytes=0", "--cache.decoded-bytes=0")...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var answers, reloads atomic.Int64
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for n := worker; ctx.Err() == nil; n++ {
				i := n % len(queries)
				got, err := post(ctx, pw.url, "/api/v1/query_range", forms[i])
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
