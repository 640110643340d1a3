package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
	"github.com/promwarp/promwarp/plan"
)

// countingProxy is a way to an upstream that counts what it answers with, in bytes.
func countingProxy(t *testing.T, to string) (via string, bytes *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	bytes = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", u.Host)
			if err != nil {
				_ = in.Close()
				continue
			}
			pass := func(to, from net.Conn, n *atomic.Int64) {
				_, _ = io.Copy(to, counted{from, n})
				_, _ = to.Close(), from.Close()
			}
			go pass(out, in, new(atomic.Int64))
			go pass(in, out, bytes)
		}
	}()
	return "http://" + l.Addr().String(), bytes
}

// counted counts what is read.
type counted struct {
	io.Reader
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// What a dashboard over 24 h that moves on by a minute costs beside its first look. The
// looks come one after another, the last of them ends now, and there are three rounds of
// them; with E2E_LIVE=n there is one, of n looks, each of which comes when its minute has
// ended, as those of a dashboard that is looked at.
func TestMovedDashboard(t *testing.T) {
	const query = `sum by (job) (rate(http_requests_total[5m]))`
	series, err := envInt("E2E_SERIES", 3400)
	require.NoError(t, err)
	live, err := envInt("E2E_LIVE", 0)
	require.NoError(t, err)
	up := startLive(t, int(series))
	via, bytes := countingProxy(t, up.URL)

	// look asks for the day until the given time.
	look := func(pw *process, until time.Time, compare bool) (l movedLook) {
		form := grid{until.Add(-24 * time.Hour), until, time.Minute}.rangeForm(query)
		one := func() {
			before, begin := bytes.Load(), time.Now()
			a := ask(t, pw.URL, rangePath, form)
			l = movedLook{time.Since(begin), bytes.Load() - before}
			require.Equal(t, http.StatusOK, a.code)
			if compare {
				requireSame(t, ask(t, up.URL, rangePath, form), a, false, "moved")
			}
		}
		if compare {
			up.still(one)
		} else {
			one()
		}
		return l
	}
	var first, fetched, kept []movedLook
	round := func(looks int, begin time.Time) {
		addr := mustFreeAddr(t)
		pw, err := start("promwarp", addr, promwarpBin, promwarpArgs(addr, via)...)
		require.NoError(t, err)
		defer func() { pw.Kill(); pw.check(t) }()
		require.NoError(t, pw.WaitReady())
		for i := range looks + 1 {
			until := begin.Add(time.Duration(i) * time.Minute)
			time.Sleep(time.Until(until))
			l := look(pw, until, i == 3 || i == looks)
			t.Logf("until %s: %s", until.Format(time.TimeOnly), l)
			switch {
			case i == 0:
				first = append(first, l)
			case l.brought > 0:
				fetched = append(fetched, l)
			default:
				kept = append(kept, l)
			}
		}
		until := begin.Add(time.Duration(looks) * time.Minute)
		form := grid{until.Add(-24 * time.Hour), until, time.Minute}.rangeForm(query)
		form.Set("analyze", "true")
		var explained struct{ Data plan.Explanation }
		require.NoError(t, json.Unmarshal(ask(t, pw.URL, "/explain", form).body, &explained))
		work, steps := explained.Data.Root.Work, explained.Data.Root.Remembered
		t.Logf("the last one again: fetched in %d us, evaluated in %d us, %d steps kept and %d evaluated", work.FetchMicros, work.EvalMicros, steps.Kept, steps.Evaluated)
		require.Less(t, steps.Evaluated, steps.Kept/8)
	}
	const looks = 8
	if live > 0 {
		round(int(live), time.Now().Truncate(time.Minute))
	} else {
		for range 3 {
			round(looks, time.Now().Truncate(time.Minute).Add(-looks*time.Minute))
		}
		// What ends more than a minute ago came with the first look.
		require.Greater(t, len(kept), len(fetched))
	}
	base, usual := middle(first), middle(fetched)
	t.Logf("first look %s; moved on by a minute, those that fetch: %s (%.0f times as fast), slowest %s; of the bytes %.2f %%, at most %.2f %%",
		base, usual, base.over(usual), slices.MaxFunc(fetched, byTime).took.Round(time.Microsecond),
		100/base.overBytes(usual), 100/base.overBytes(slices.MaxFunc(fetched, byBytes)))
	if len(kept) > 0 {
		t.Logf("those that do not: %s (%.0f times as fast)", middle(kept), base.over(middle(kept)))
	}
	// One that fetches all that is young again has chunks, with labels that take half of it.
	require.Less(t, 100/base.overBytes(usual), 2.)
	require.Less(t, 100/base.overBytes(slices.MaxFunc(fetched, byBytes)), 5.)
}

// movedLook is what a look took, and what it brought from the upstream, in bytes.
type movedLook struct {
	took    time.Duration
	brought int64
}

func (l movedLook) String() string {
	return fmt.Sprintf("%s, %d bytes", l.took.Round(time.Microsecond), l.brought)
}

func (l movedLook) over(other movedLook) float64 { return float64(l.took) / float64(other.took) }
func (l movedLook) overBytes(other movedLook) float64 {
	return float64(l.brought) / float64(other.brought)
}

func byTime(a, b movedLook) int  { return cmp.Compare(a.took, b.took) }
func byBytes(a, b movedLook) int { return cmp.Compare(a.brought, b.brought) }

// middle has the medians of looks.
func middle(looks []movedLook) movedLook {
	if len(looks) == 0 {
		return movedLook{}
	}
	t, b := slices.SortedFunc(slices.Values(looks), byTime), slices.SortedFunc(slices.Values(looks), byBytes)
	return movedLook{t[len(t)/2].took, b[len(b)/2].brought}
}

// live is a Prometheus with a day of data that goes on: its newest hours are in its
// head, as they are in every Prometheus that scrapes, and samples arrive each second.
type live struct {
	*process
	series int

	arriving sync.Mutex // held while samples arrive
	data     *dataset.Generator
}

// startLive starts one, which ends with the test.
func startLive(t *testing.T, series int) *live {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	l := &live{series: series}
	var err error
	l.data, err = dataset.New(dataset.Options{
		Start: now.Add(-25 * time.Hour).UnixMilli(), End: now.Add(time.Hour).UnixMilli(), Series: series, Seed: 1,
	})
	require.NoError(t, err)
	dir := t.TempDir()
	head := now.Add(-time.Hour).Truncate(2 * time.Hour)
	require.NoError(t, l.data.WriteBlocks(ctx, dir, head.UnixMilli(), func(float64) {}))
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	err = l.data.Write(ctx, db, time.Now().UnixMilli())
	require.NoError(t, db.Close())
	require.NoError(t, err)

	addr := mustFreeAddr(t)
	args := append(programs.PrometheusArgs(addr, dir, writeConfig(t, "")), "--web.enable-remote-write-receiver")
	l.process = runServer(t, "Prometheus", addr, prometheusBin, args...)
	l.arrive(t)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				l.arrive(t)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
	return l
}

// arrive sends all samples until now.
func (l *live) arrive(t *testing.T) {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	if err := l.data.Write(context.Background(), programs.RemoteWrite(l.URL), time.Now().UnixMilli()); err != nil {
		t.Errorf("send samples: %s", err)
	}
}

// still calls f while no samples arrive.
func (l *live) still(f func()) {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	f()
}

// While Prometheus scrapes, promwarp's answers keep up with it.
func TestFreshData(t *testing.T) {
	t.Parallel()
	addr := mustFreeAddr(t)
	up := prometheus(t, addr, t.TempDir(), fmt.Sprintf(
		"global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: self\n  static_configs:\n  - targets: [%q]\n", addr))
	pw := promwarp(t, up.URL)

	var seen float64 // time of the newest sample seen
	moved := 0
	deadline := time.Now().Add(30 * time.Second)
	for moved < 6 {
		require.True(t, time.Now().Before(deadline), "saw %d new samples through promwarp in half a minute", moved)
		time.Sleep(300 * time.Millisecond)
		now := time.Now()
		newest := newestSample(t, pw.URL, now)
		require.GreaterOrEqual(t, newest, seen, "the newest sample became older")
		if newest > seen {
			moved++
			seen = newest
		}
		if moved > 0 {
			require.Less(t, float64(now.UnixMilli())/1000-newest, 8.0, "seconds that promwarp lags behind")
		}
	}

	// What has settled is the same on both, the newest samples included.
	end := time.Now().Truncate(time.Second)
	time.Sleep(1500 * time.Millisecond)
	g := grid{end.Add(-5 * time.Second), end, time.Second}
	for _, q := range []string{`up`, `sum(scrape_samples_scraped)`, `rate(prometheus_http_requests_total[3s])`, `count({__name__=~"prometheus_tsdb.+"})`} {
		form := g.rangeForm(q)
		requireSame(t, ask(t, up.URL, rangePath, form), ask(t, pw.URL, rangePath, form), false, q)
	}
}

// newestSample is the time in seconds of the newest sample of up, 0 for none.
func newestSample(t *testing.T, base string, at time.Time) float64 {
	t.Helper()
	r, err := ask(t, base, queryPath, instantForm(`max(timestamp(up))`, at)).parse()
	require.NoError(t, err)
	require.Equal(t, "success", r.Status, r.Error)
	var ss []series
	require.NoError(t, json.Unmarshal(r.Data.Result, &ss))
	if len(ss) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(ss[0].Value.v, 64)
	require.NoError(t, err)
	return v
}
