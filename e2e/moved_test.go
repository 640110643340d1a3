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
// looks come one after another and end ten minutes ago and later; with E2E_LIVE=n
// there are n, each of which comes when its minute has ended, as those of a dashboard
// that is looked at.
func TestMovedDashboard(t *testing.T) {
	const query = `sum by (job) (rate(http_requests_total[5m]))`
	series, err := envInt("E2E_SERIES", 6800)
	require.NoError(t, err)
	live, err := envInt("E2E_LIVE", 0)
	require.NoError(t, err)
	looks := 10
	up := startLive(t, int(series))
	via, bytes := countingProxy(t, up.url)
	pw := promwarp(t, via)
	at := time.Now().Truncate(time.Minute)
	if live > 0 {
		looks = int(live)
	} else {
		at = at.Add(time.Duration(-looks) * time.Minute)
	}
	look := func(compare bool) (took time.Duration, brought int64) {
		if live > 0 {
			time.Sleep(time.Until(at))
		}
		form := grid{at.Add(-24 * time.Hour), at, time.Minute}.rangeForm(query)
		one := func() {
			before, begin := bytes.Load(), time.Now()
			a := ask(t, pw.url, rangePath, form)
			took, brought = time.Since(begin), bytes.Load()-before
			require.Equal(t, http.StatusOK, a.code)
			if compare {
				requireSame(t, ask(t, up.url, rangePath, form), a, false, "moved")
			}
		}
		if compare {
			up.still(one)
		} else {
			one()
		}
		return took, brought
	}
	first, firstBytes := look(false)
	var took []time.Duration
	var brought []int64
	for i := range looks {
		at = at.Add(time.Minute)
		d, n := look(i%5 == 4)
		took = append(took, d)
		brought = append(brought, n)
		t.Logf("until %s: %s, %d bytes", at.Format(time.TimeOnly), d.Round(time.Microsecond), n)
	}
	form := grid{at.Add(-24 * time.Hour), at, time.Minute}.rangeForm(query)
	form.Set("analyze", "true")
	var explained struct{ Data plan.Explanation }
	require.NoError(t, json.Unmarshal(ask(t, pw.url, "/explain", form).body, &explained))
	work, steps := explained.Data.Root.Work, explained.Data.Root.Remembered
	t.Logf("the last one again: fetched in %d us, evaluated in %d us, %d steps kept and %d evaluated", work.FetchMicros, work.EvalMicros, steps.Kept, steps.Evaluated)
	require.Less(t, steps.Evaluated, steps.Kept/8)
	again := median(took)
	slices.Sort(brought)
	share := func(n int64) float64 { return 100 * float64(n) / float64(firstBytes) }
	usual, most := share(brought[looks/2]), share(brought[looks-1])
	t.Logf("first look %s and %d bytes; moved on by a minute, median %s (%.0f times as fast), slowest %s; of the bytes %.2f %%, at most %.2f %%",
		first.Round(time.Microsecond), firstBytes, again.Round(time.Microsecond), float64(first)/float64(again), slices.Max(took).Round(time.Microsecond), usual, most)
	// Most looks fetch a minute or two. One that fetches all that is young again has chunks, with labels that take half of it.
	require.Less(t, usual, 2.)
	require.Less(t, most, 5.)
}
