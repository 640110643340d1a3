package table

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/promwarp/promwarp/api/encode"
)

// BenchmarkHTTP sends an answer of a million points over HTTP within the machine, in each format
// and layout, and then the same bytes as they are: what sending alone takes. cpu-ms is time of all
// cores, of both ends.
func BenchmarkHTTP(b *testing.B) {
	m := matrix()
	bench := func(name string, write func(io.Writer) error) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = write(w) }))
		defer server.Close()
		var buf bytes.Buffer
		ask := func() {
			resp, err := http.Get(server.URL)
			require.NoError(b, err)
			buf.Reset()
			_, err = buf.ReadFrom(resp.Body)
			require.NoError(b, err)
			require.NoError(b, resp.Body.Close())
		}
		ask()
		b.Run(name, func(b *testing.B) {
			began := cpuMillis(b)
			for b.Loop() {
				ask()
			}
			b.ReportMetric((cpuMillis(b)-began)/float64(b.N), "cpu-ms")
			b.ReportMetric(float64(buf.Len())/1e6, "MB")
		})
	}
	both := func(name string, write func(io.Writer) error) {
		bench(name, write)
		var all bytes.Buffer
		require.NoError(b, write(&all))
		bench(name+", bytes alone", func(w io.Writer) error { _, err := w.Write(all.Bytes()); return err })
	}
	both("json", func(w io.Writer) error {
		a, err := encode.New(encode.Result{Value: m})
		require.NoError(b, err)
		begin, _ := a.Begin()
		_, err = w.Write(begin)
		require.NoError(b, err)
		return a.WriteRest(w)
	})
	for _, wide := range []bool{false, true} {
		name := map[bool]string{false: "arrow", true: "arrow, wide"}[wide]
		both(name, func(w io.Writer) error { return tableTo(w, m, Formats[3], wide) })
	}
}

// cpuMillis is the time in ms that the process has had cores.
func cpuMillis(b *testing.B) float64 {
	var u unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &u))
	return float64(u.Nano()) / 1e6
}
