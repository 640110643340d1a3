package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/queue"
)

// slow is an engine whose instant queries take a while.
type slow struct {
	Engine
	takes         time.Duration
	block         chan struct{} // when set, queries wait for it to be closed instead
	running, most atomic.Int64
}

func (s *slow) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	query, err := s.Engine.NewQuery(ctx, r)
	return slowQuery{query, s}, err
}

type slowQuery struct {
	promql.Query
	s *slow
}

func (q slowQuery) Exec(ctx context.Context) *promql.Result {
	n := q.s.running.Add(1)
	defer q.s.running.Add(-1)
	for m := q.s.most.Load(); n > m && !q.s.most.CompareAndSwap(m, n); m = q.s.most.Load() {
	}
	if q.s.block != nil {
		<-q.s.block
	} else {
		time.Sleep(q.s.takes)
	}
	return q.Query.Exec(ctx)
}

// askFrom asks as a client with that address.
func askFrom(a *API, address, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// However many clients there are, as many queries are answered, none waits for longer than
// it may, and those that are refused are told to come later.
func TestShedding(t *testing.T) {
	const (
		slots   = 20 // of 50 ms
		maxWait = 300 * time.Millisecond
	)
	e := &slow{Engine: newEngine(t, nil), takes: 50 * time.Millisecond}
	a := newTestAPI(t, func(o *Options) {
		o.Engine = e
		o.Queue = queue.New(queue.Limits{Slots: slots, MaxWaiting: 150, MaxWait: maxWait}, nil)
	})
	synctest.Test(t, func(t *testing.T) { testShedding(t, a, e, slots, maxWait) })
}

func testShedding(t *testing.T, a *API, e *slow, slots int, maxWait time.Duration) {
	// load is how many queries of a number of clients are answered in a while.
	load := func(clients int) (answered, refused int64, longest time.Duration) {
		var ok, sent atomic.Int64
		var took atomic.Int64
		var wg sync.WaitGroup
		end := time.Now().Add(time.Second)
		for i := range clients {
			wg.Go(func() {
				for time.Now().Before(end) {
					start := time.Now()
					w := askFrom(a, fmt.Sprintf("10.0.%d.%d:1000", i/250, i%250), "/api/v1/query?query=1")
					d := int64(time.Since(start))
					for m := took.Load(); d > m && !took.CompareAndSwap(m, d); m = took.Load() {
					}
					if w.Code == http.StatusOK {
						ok.Add(1)
						continue
					}
					sent.Add(1)
					_, got := decode(t, w)
					if w.Code != http.StatusServiceUnavailable || got.ErrorType != "unavailable" || w.Header().Get("Retry-After") != "1" ||
						!strings.Contains(got.Error, "queue") || !strings.Contains(got.Error, "--query.max-queue") {
						t.Errorf("%d %s %q", w.Code, w.Body, w.Header())
					}
					time.Sleep(50 * time.Millisecond) // impatient
				}
			})
		}
		wg.Wait()
		return ok.Load(), sent.Load(), time.Duration(took.Load())
	}
	few, refused, _ := load(slots)
	require.Zero(t, refused)
	many, refused, longest := load(500)
	t.Logf("%d queries of 20 clients, %d of 500, of which %d were refused; longest %v", few, many, refused, longest)
	require.Positive(t, refused)
	require.GreaterOrEqual(t, many, few)
	require.LessOrEqual(t, longest, maxWait+e.takes)
	require.LessOrEqual(t, e.most.Load(), int64(slots))
}

// A client with many queries waiting holds up another's by one query.
func TestFairness(t *testing.T) {
	for _, c := range []struct {
		name, header  string
		first, second func(*http.Request)
	}{
		{"by address", "", func(r *http.Request) { r.RemoteAddr = "10.0.0.1:7" }, func(r *http.Request) { r.RemoteAddr = "[::1]:7" }},
		{"by tenant", "X-Scope-OrgID", func(r *http.Request) { r.Header.Set("X-Scope-OrgID", "a") }, func(r *http.Request) { r.Header.Set("X-Scope-OrgID", "b") }},
	} {
		e := &slow{Engine: newEngine(t, nil), takes: 10 * time.Millisecond}
		q := queue.New(queue.Limits{Slots: 1, MaxWaiting: 1000, MaxWait: time.Minute}, nil)
		a := newTestAPI(t, func(o *Options) { o.Engine, o.Queue, o.TenantHeader = e, q, c.header })
		var answered atomic.Int64
		ask := func(from func(*http.Request)) {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1", nil)
			from(r)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			answered.Add(1)
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { ask(c.first) })
		}
		require.Eventually(t, func() bool { return answered.Load() > 10 }, 10*time.Second, time.Millisecond)
		before := answered.Load()
		ask(c.second)
		require.LessOrEqual(t, answered.Load()-before, int64(8), "%s: one query's turn, and what ended while this was noticed", c.name)
		wg.Wait()
	}
}

// requireWaiting asks for paths when there is no slot: a request that waits is refused, and told why.
func requireWaiting(t *testing.T, a *API, says string, paths map[string]bool) {
	for path, waits := range paths {
		w := askFrom(a, "10.0.0.1:1", path)
		require.Equal(t, waits, w.Code == http.StatusServiceUnavailable, "%s: %d", path, w.Code)
		require.Equal(t, waits, w.Header().Get("Retry-After") == "1", path)
		require.Equal(t, waits, strings.Contains(w.Body.String(), says), path)
	}
}

// All doors that evaluate wait for a slot, and no others; the slot is free once evaluation
// has ended, however slowly the answer is read.
func TestDoorsThatWait(t *testing.T) {
	q := queue.New(queue.Limits{Slots: 1}, nil)
	a := newTestAPI(t, func(o *Options) { o.Queue = q })
	slot, err := q.Enter(t.Context(), "")
	require.NoError(t, err)
	requireWaiting(t, a, "--query.max-queue", map[string]bool{
		"/api/v1/query?query=1":                            true,
		"/api/v1/query_range?query=1&start=0&end=1&step=1": true,
		"/query?query=1":                                   true,
		"/explain?query=1":                                 true,
		"/federate?match[]=m":                              true,
		"/api/v1/labels":                                   false,
		"/api/v1/format_query?query=1":                     false,
		"/-/healthy":                                       false,
		"/metrics":                                         false,
	})
	slot.Leave()

	stuck := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), at: make(chan struct{}), until: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.ServeHTTP(stuck, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=m", nil))
	}()
	<-stuck.at
	require.Equal(t, http.StatusOK, askFrom(a, "10.0.0.1:1", "/api/v1/query?query=1").Code)
	close(stuck.until)
	<-done
}

// Lists have a queue of their own, in which the doors wait that the upstream answers; the slot
// is free once the upstream has begun to answer.
func TestListsWait(t *testing.T) {
	begun, until := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("match[]") == "stuck" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-until
		}
	}))
	defer up.Close()
	base, err := url.Parse(up.URL)
	require.NoError(t, err)
	q := queue.New(queue.Limits{Slots: 1}, nil)
	a := newTestAPI(t, func(o *Options) { o.ListQueue, o.Remotes = q, []*forward.Remote{{Name: up.URL, Base: base}} })
	slot, err := q.Enter(t.Context(), "")
	require.NoError(t, err)
	requireWaiting(t, a, "--query.max-lists", map[string]bool{
		"/api/v1/labels":             true,
		"/api/v1/label/job/values":   true,
		"/api/v1/series?match[]=m":   true,
		"/api/v1/metadata":           true,
		"/api/v1/targets":            true,
		"/api/v1/status/tsdb":        true,
		"/federate?match[]=m":        true,
		"/api/v1/query?query=1":      false,
		"/api/v1/status/runtimeinfo": false,
	})
	slot.Leave()

	done := make(chan struct{})
	go func() {
		defer close(done)
		askFrom(a, "10.0.0.1:1", "/api/v1/series?match[]=stuck")
	}()
	<-begun
	require.Eventually(t, func() bool { return q.Running() == 0 }, 20*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, askFrom(a, "10.0.0.1:1", "/api/v1/series?match[]=m").Code)
	close(until)
	<-done
}

// stuckWriter is a client that does not read yet.
type stuckWriter struct {
	*httptest.ResponseRecorder
	at, until chan struct{}
	once      sync.Once
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.at) })
	<-w.until
	return w.ResponseRecorder.Write(b)
}

// The time in the queue counts toward the query's timeout.
func TestTimeoutInTheQueue(t *testing.T) {
	e := &slow{Engine: newEngine(t, nil), takes: time.Second}
	q := queue.New(queue.Limits{Slots: 1, MaxWaiting: 5, MaxWait: time.Minute}, nil)
	a := newTestAPI(t, func(o *Options) { o.Engine, o.Queue, o.Timeout = e, q, 10*time.Second })
	slot, err := q.Enter(t.Context(), "")
	require.NoError(t, err)
	start := time.Now()
	w := askFrom(a, "10.0.0.1:1", "/api/v1/query?query=1&timeout=50ms")
	require.Less(t, time.Since(start), 10*time.Second)
	code, got := decode(t, w)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "timeout", got.ErrorType)
	require.Contains(t, got.Error, "query timed out in the queue")
	_, err = strconv.Atoi(w.Header().Get("Retry-After"))
	require.NoError(t, err)

	// What is left of it is for the evaluation.
	e.takes = 0
	time.AfterFunc(100*time.Millisecond, slot.Leave)
	a.o.Engine = e
	r := httptest.NewRequest(http.MethodGet, "/?timeout=10s", nil)
	require.NoError(t, r.ParseForm())
	turn, r, err := a.gate.Query(httptest.NewRecorder(), r, "")
	require.NoError(t, err)
	defer turn.End()
	deadline, _ := r.Context().Deadline()
	require.Less(t, time.Until(deadline), 9910*time.Millisecond)
}
