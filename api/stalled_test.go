package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
	var v promql.Vector
	for i := range 100_000 {
		v = append(v, promql.Sample{Metric: labels.FromStrings("a", fmt.Sprint(strings.Repeat("x", 200), i))})
	}
	return &promql.Result{Value: v}
}

func (q *holdingQuery) Close() {
	q.lease.Release()
	q.Query.Close()
}

// TestStalledReadersGiveWay: clients that read nothing of large answers hold no memory that another
// client waits for, and keep their answers as long as nobody does.
func TestStalledReadersGiveWay(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 1000 << 20, Wait: 5 * time.Second})
	a := newTestAPI(t, func(o *Options) {
		o.Memory, o.WriteTimeout = pool, time.Hour
		o.Engine = holding{newEngine(t, nil), pool}
	})
	s := httptest.NewServer(a)
	t.Cleanup(s.Close) // once the clients have gone
	stall := func(mib int) net.Conn {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = fmt.Fprintf(c, "GET /api/v1/query?query=1&lookback_delta=%d HTTP/1.1\r\nHost: x\r\n\r\n", mib)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return c
	}
	for range 15 {
		stall(50)
	}
	time.Sleep(1500 * time.Millisecond) // longer than they may stall while others wait
	require.EqualValues(t, 750<<20, pool.Used(), "nobody waits yet")
	began := time.Now()
	resp, err := http.Get(s.URL + "/api/v1/query?query=1&lookback_delta=300")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	t.Log("waited", time.Since(began))
}
