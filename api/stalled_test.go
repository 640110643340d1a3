package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
)

// holding is an engine whose queries hold as much memory as their lookback says, in MiB for seconds,
// until they are closed, and have large answers.
type holding struct {
	Engine
	pool *memory.Pool
}

func (h holding) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	query, err := h.Engine.NewQuery(ctx, r)
	return &holdingQuery{query, h.pool.Lease(memory.Evaluation), int64(r.Options.LookbackDelta().Seconds()) << 20}, err
}

type holdingQuery struct {
	promql.Query
	lease *memory.Lease
	bytes int64
}

func (q *holdingQuery) Exec(ctx context.Context) *promql.Result {
	if err := q.lease.Grow(ctx, q.bytes); err != nil {
		return &promql.Result{Err: err}
	}
	return &promql.Result{Value: largeVector()}
}

// largeVector is 25 MB as JSON.
var largeVector = sync.OnceValue(func() (v promql.Vector) {
	for i := range 100_000 {
		v = append(v, promql.Sample{Metric: labels.FromStrings("a", fmt.Sprint(strings.Repeat("x", 200), i))})
	}
	return v
})

func (q *holdingQuery) Close() {
	q.lease.Release()
	q.Query.Close()
}

// TestSlowReadersGiveWay: clients that read nothing of large answers, or read them slowly, hold no
// memory that another client waits for, however many they are. They keep their answers as long as
// there is enough of it, and fast readers keep theirs.
func TestSlowReadersGiveWay(t *testing.T) {
	for name, c := range map[string]struct{ readers, each, rate, code int }{ // each MiB, and bytes a tenth of a second
		"one that reads nothing": {1, 750, 0, http.StatusOK},
		"many that read nothing": {50, 15, 0, http.StatusOK},
		"steady":                 {50, 15, 10_000, http.StatusOK},
		"fast":                   {2, 375, 200_000, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			pool := memory.New(memory.Options{Limit: 1000 << 20, Wait: 300 * time.Millisecond})
			s := httptest.NewUnstartedServer(newTestAPI(t, func(o *Options) {
				o.Memory, o.WriteTimeout = pool, time.Hour
				o.Engine = holding{newEngine(t, nil), pool}
			}))
			s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
				if state == http.StateNew && c.rate < 100_000 { // or the kernel would take much for them
					_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
				}
			}
			s.Start()
			t.Cleanup(s.Close) // once the clients have gone
			for range c.readers {
				conn, err := net.Dial("tcp", s.Listener.Addr().String())
				require.NoError(t, err)
				t.Cleanup(func() { conn.Close() })
				if c.rate < 100_000 {
					require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
				}
				_, err = fmt.Fprintf(conn, "GET /api/v1/query?query=1&lookback_delta=%d HTTP/1.1\r\nHost: x\r\n\r\n", c.each)
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				if c.rate > 0 {
					go func() {
						for err := error(nil); err == nil; _, err = io.CopyN(io.Discard, conn, int64(c.rate)) {
							time.Sleep(100 * time.Millisecond)
						}
					}()
				}
			}
			time.Sleep(3 * time.Second) // longer than they may be behind while others wait
			require.EqualValues(t, 750<<20, pool.Used(), "no query waits yet")
			began := time.Now()
			resp, err := http.Get(s.URL + "/api/v1/query?query=1&lookback_delta=300")
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, c.code, resp.StatusCode)
			t.Log("waited", time.Since(began))
		})
	}
}
