package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
// looks come one after another, or each a minute after the one before if the data
// reaches into the future, as with E2E_END=$(date -d '12 minutes' +%s): then it is
// what a dashboard costs that is looked at.
func TestMovedDashboard(t *testing.T) {
	const query = `sum by (job) (rate(http_requests_total[5m]))`
	up := upstream(t)
	requireAtLeast(t, up, 3000)
	via, bytes := countingProxy(t, up.url)
	addr := mustFreeAddr(t)
	pw, err := start("promwarp", addr, promwarpBin, promwarpArgs(addr, via)...)
	require.NoError(t, err)
	t.Cleanup(pw.kill)
	require.NoError(t, pw.waitReady())
	look := func(minute int) (time.Duration, int64) {
		g := up.grid
		g.start, g.end = g.start.Add(time.Duration(minute)*time.Minute), g.end.Add(time.Duration(minute)*time.Minute)
		before, begin := bytes.Load(), time.Now()
		a := ask(t, pw.url, rangePath, g.rangeForm(query))
		took := time.Since(begin)
		require.Equal(t, http.StatusOK, a.code)
		if minute%5 == 0 {
			requireSame(t, ask(t, up.url, rangePath, g.rangeForm(query)), a, false, "moved")
		}
		return took, bytes.Load() - before
	}
	begin, live := -10, time.Until(up.grid.end)
	if live > 0 {
		begin = -int(live / time.Minute)
	}
	first, firstBytes := look(begin)
	var took []time.Duration
	var brought []int64
	for minute := begin + 1; minute <= min(0, begin+10); minute++ {
		if live > 0 {
			time.Sleep(time.Until(up.grid.end.Add(time.Duration(minute) * time.Minute)))
		}
		d, n := look(minute)
		took = append(took, d)
		brought = append(brought, n)
		t.Logf("%d minutes before now: %s, %d bytes", -minute, d.Round(time.Microsecond), n)
	}
	form := up.grid.rangeForm(query)
	form.Set("analyze", "true")
	var explained struct{ Data plan.Explanation }
	require.NoError(t, json.Unmarshal(ask(t, pw.url, "/explain", form).body, &explained))
	work, steps := explained.Data.Root.Work, explained.Data.Root.Remembered
	t.Logf("the last one again: fetched in %d us, evaluated in %d us, %d steps kept and %d evaluated", work.FetchMicros, work.EvalMicros, steps.Kept, steps.Evaluated)
	require.Less(t, steps.Evaluated, steps.Kept/8)
	slices.Sort(took)
	slices.Sort(brought)
	again := took[len(took)/2]
	share := func(n int64) float64 { return 100 * float64(n) / float64(firstBytes) }
	median, most := share(brought[len(brought)/2]), share(brought[len(brought)-1])
	t.Logf("first look %s and %d bytes; moved on by a minute, median %s (%.0f times as fast), slowest %s; of the bytes %.2f %%, at most %.2f %%",
		first.Round(time.Microsecond), firstBytes, again.Round(time.Microsecond), float64(first)/float64(again), took[len(took)-1].Round(time.Microsecond), median, most)
	// Most looks fetch a minute or two. One that fetches all that is young again has chunks, with labels that take half of it.
	if live > 0 {
		require.Less(t, median, 2.)
	}
	require.Less(t, most, 5.)
}
