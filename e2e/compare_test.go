package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// tolerance is how far apart two values may be, relative to the larger one.
const tolerance = 1e-12

// requireSame requires two servers' answers to say the same.
func requireSame(t *testing.T, want, got answer, ordered bool, what string) {
	t.Helper()
	require.NoError(t, same(want, got, ordered), what)
}

// same says how the answers differ: in status, errors, warnings, infos, type,
// series, timestamps, or values by more than the tolerance. The order of the
// series counts if ordered is set, and in any matrix.
func same(want, got answer, ordered bool) error {
	w, err := compare.Parse(want.code, want.body)
	var refused *compare.Refused
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("the expected answer: %w", err)
	}
	g, err := compare.Parse(got.code, got.body)
	var too *compare.Refused
	if err != nil && !errors.As(err, &too) {
		return err
	}
	switch {
	case refused == nil && too == nil && want.code == got.code:
		return sameAnswer(w, g, ordered)
	case refused == nil || too == nil || want.code != got.code || refused.Type != too.Type || !sameError(refused.Text, too.Text):
		return fmt.Errorf("status %d %+v instead of %d %+v", got.code, too, want.code, refused)
	}
	return nil
}

// sameAnswer says how answers that are no errors differ.
func sameAnswer(want, got *compare.Answer, ordered bool) error {
	if !ordered && want.Type == parser.ValueTypeVector {
		want.Sort()
		got.Sort()
	}
	if d := compare.Differ(want, got, tolerance); d != nil {
		return errors.New(d.String())
	}
	return nil
}

// sameError compares the texts of errors but for which of several duplicate series they
// name, which is chance in Prometheus where an operator has fill values.
func sameError(a, b string) bool {
	const duplicate = "found duplicate series for the match group "
	x, _, both := strings.Cut(a, duplicate)
	y, _, too := strings.Cut(b, duplicate)
	return a == b || both && too && x == y
}

func TestCompare(t *testing.T) {
	matrix := func(values string) answer {
		return answer{200, []byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":` + values + `}]}}`)}
	}
	want := matrix(`[[1,"1"],[2.5,"NaN"],[3,"+Inf"]]`)
	require.NoError(t, same(want, want, false))
	require.NoError(t, same(want, matrix(`[[1,"1.0000000000000002"],[2.5,"NaN"],[3,"+Inf"]]`), false))
	for _, other := range []string{
		`[[1,"1.00000000001"],[2.5,"NaN"],[3,"+Inf"]]`,
		`[[1,"1"],[2,"NaN"],[3,"+Inf"]]`,
		`[[1,"1"],[2.5,"0"],[3,"+Inf"]]`,
		`[[1,"1"],[2.5,"NaN"],[3,"-Inf"]]`,
		`[[1,"1"],[2.5,"NaN"]]`,
	} {
		require.Error(t, same(want, matrix(other), false), other)
	}
	require.Error(t, same(want, answer{200, []byte(`{"status":"success","warnings":["w"],"data":{"resultType":"matrix","result":[]}}`)}, false))
	require.Error(t, same(want, answer{500, want.body}, false))
	require.Error(t, same(want, answer{200, []byte("hello")}, false))
}

// What clients meet while every query is compared.
const (
	shadowQueries  = 300                    // at once
	shadowSmall    = 2 * time.Second        // bounds the median of a small query meanwhile
	shadowShutdown = 10 * time.Second       // bounds SIGTERM to the end
	shadowEvery    = 100 * time.Millisecond // between small queries
)

// Every query is compared with the upstream, in a small budget, while hundreds come at once
// and when the program is told to end amid them: all are answered, no difference is found, small
// queries stay fast, and nothing stays behind.
func TestShadowUnderLoad(t *testing.T) {
	g := smallGrid(6)
	g.step = 10 * time.Second
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, up.url), "--compare.fraction=1", "--compare.timeout=5s",
		"--memory.limit=256MiB", "--query.max-queue=1000", "--query.max-queue-time=90s")...)

	// One after the other, each finds room to be compared.
	for i := range 10 {
		require.Equal(t, http.StatusOK, ask(t, pw.url, rangePath, g.rangeForm(shadowQuery(i))).code)
		shadowSettles(t, pw.url)
	}
	require.GreaterOrEqual(t, figure(t, pw.url, `promwarp_compare_queries_total{verdict="same"}`), 9.0, "compared")
	before := figure(t, pw.url, "go_goroutines")

	all, stop := make(chan []int, 1), make(chan struct{})
	go func() { all <- crowd(t, pw.url, g, shadowQueries) }()
	small := make(chan []time.Duration, 1)
	go func() { small <- smallQueries(t, pw.url, stop) }()
	codes := <-all
	close(stop)
	took := <-small
	slices.Sort(took)
	t.Logf("%d small queries: median %s, slowest %s; %.0f compared, %.0f left out", len(took), took[len(took)/2], took[len(took)-1],
		figure(t, pw.url, "promwarp_compare_queries_total"), figure(t, pw.url, "promwarp_compare_skipped_total"))
	require.Equal(t, slices.Repeat([]int{http.StatusOK}, shadowQueries), codes)
	require.Less(t, took[len(took)/2], shadowSmall)

	// Nothing is left of it.
	client.CloseIdleConnections()
	shadowSettles(t, pw.url)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Zero(c, figure(t, pw.url, `promwarp_memory_bytes{part="evaluation"}`))
		assert.LessOrEqual(c, figure(t, pw.url, "go_goroutines"), before+10)
	}, 30*time.Second, 100*time.Millisecond)
	require.Zero(t, figure(t, pw.url, `promwarp_compare_queries_total{verdict="different"}`))
	require.Zero(t, figure(t, pw.url, `promwarp_compare_skipped_total{reason="failed"}`))
	require.NotContains(t, pw.log.String(), "level=ERROR")

	// It ends soon amid as many, and whoever is answered is answered rightly.
	go func() { all <- crowd(t, pw.url, g, shadowQueries) }()
	require.Eventually(t, func() bool { return figure(t, pw.url, `promwarp_http_requests_in_flight`) > 20 }, 20*time.Second, 10*time.Millisecond)
	pw.signal(syscall.SIGTERM)
	told := time.Now()
	require.Equal(t, 0, pw.wait(t, time.Minute), pw.log.tail())
	ended := time.Since(told)
	answered := <-all
	t.Logf("ended %s after SIGTERM", ended)
	for _, code := range answered {
		require.Contains(t, []int{http.StatusOK, 0}, code, "those are left out that had no connection yet")
	}
	require.Less(t, ended, shadowShutdown)
	require.NotContains(t, pw.log.String(), "an answer differs")
}

// shadowQuery is one of many queries that read alike.
func shadowQuery(i int) string {
	functions := []string{"rate", "increase", "avg_over_time", "max_over_time", "deriv"}
	return fmt.Sprintf("sum by (job, code) (%s(http_requests_total[%dm])) + %d", functions[i%len(functions)], 5+i%7, i)
}

// shadowSettles waits until no comparison runs or waits.
func shadowSettles(t *testing.T, url string) {
	t.Helper()
	require.Eventually(t, func() bool { return figure(t, url, "promwarp_compare_running") == 0 }, 5*time.Minute, 100*time.Millisecond)
}

// crowd asks n queries at once and returns the codes of their answers, 0 for none.
func crowd(t *testing.T, url string, g grid, n int) []int {
	codes := make([]int, n)
	var asked sync.WaitGroup
	for i := range n {
		asked.Go(func() {
			a, err := post(t.Context(), url, rangePath, g.rangeForm(shadowQuery(i)))
			if err != nil {
				return
			}
			if codes[i] = a.code; a.code != http.StatusOK {
				t.Logf("query %d: %d, %s", i, a.code, a.body)
			}
		})
	}
	asked.Wait()
	return codes
}

// smallQueries asks a small query again and again until it is told to stop, and returns how long
// each took.
func smallQueries(t *testing.T, url string, stop <-chan struct{}) (took []time.Duration) {
	for {
		began := time.Now()
		a, err := post(t.Context(), url, queryPath, instantForm(`sum(node_memory_bytes)`, smallGrid(1).end))
		if assert.NoError(t, err) {
			assert.Equal(t, http.StatusOK, a.code, "%s", a.body)
		}
		took = append(took, time.Since(began))
		select {
		case <-stop:
			return took
		case <-time.After(shadowEvery):
		}
	}
}

// figure is the sum of the metrics whose names and labels begin so.
func figure(t assert.TestingT, url, begin string) (sum float64) {
	resp, err := http.Get(url + "/metrics")
	if !assert.NoError(t, err) {
		return -1
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	for line := range strings.Lines(string(page)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, begin) {
			v, err := strconv.ParseFloat(value, 64)
			assert.NoError(t, err)
			sum += v
		}
	}
	return sum
}

// volatile are the names of what changes in a Prometheus from one request to the
// next.
var volatile = []string{
	"lastScrape", "lastScrapeDuration", "lastEvaluation", "evaluationTime", "serverTime", "goroutineCount", "maxTime", "chunkCount",
	"keepFiringSince",
}

// settled returns v as JSON reads it, without what is volatile.
func settled(t *testing.T, v any) any {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		b, err = json.Marshal(v)
		require.NoError(t, err)
	}
	var tree any
	require.NoError(t, json.Unmarshal(b, &tree), "%.200s", b)
	return without(tree, volatile)
}

// without takes members of these names off a JSON value.
func without(v any, names []string) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = without(x[i], names)
		}
	case map[string]any:
		for k := range x {
			if slices.Contains(names, k) {
				delete(x, k)
			} else {
				x[k] = without(x[k], names)
			}
		}
	}
	return v
}
