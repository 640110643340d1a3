package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// pipes is a net.Listener in memory. Its connections have no buffers, and their deadlines
// go by the time of a test's bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns a client's end of a connection.
func (p *pipes) dial() net.Conn {
	c, s := net.Pipe()
	p.conns <- s
	return c
}

// inBubble serves a over pipes in a bubble, in which time passes when all wait. At the end
// no request may be left.
func inBubble(t *testing.T, a *API, test func(*testing.T, *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 5 * time.Minute}
		done := make(chan error)
		go func() { done <- srv.Serve(p) }()
		defer func() {
			srv.Close()
			<-done
			time.Sleep(time.Hour) // for what waits for a deadline
		}()
		test(t, p)
	})
}

// answerTo sends text and returns what is answered.
func answerTo(t *testing.T, c net.Conn, text string) *http.Response {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return resp
}

const formHeader = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n"

// A body that drips is not waited for, at any door; one that comes slowly is.
func TestSlowBodies(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer up.Close()
	base, _ := url.Parse(up.URL)
	a := newTestAPI(t, func(o *Options) {
		o.Remotes = []*forward.Remote{{Name: "up", Base: base, Kept: func() labels.Labels { return labels.FromStrings("a", "b") }}}
	})
	for _, path := range []string{
		"/api/v1/query", "/api/v1/query_range", "/query", "/explain", "/api/v1/labels", "/api/v1/read", "/api/v1/write",
		"/nothing", "/-/reload", "//api/v1/query",
	} {
		inBubble(t, a, func(t *testing.T, p *pipes) {
			c := p.dial()
			defer c.Close()
			start := time.Now()
			_, err := fmt.Fprintf(c, formHeader, path, 10_000)
			require.NoError(t, err)
			go func() { // byte by byte
				for {
					if _, err := io.WriteString(c, "q"); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, path)
			require.GreaterOrEqual(t, resp.StatusCode, 300, path)
			body, _ := io.ReadAll(resp.Body)
			switch path {
			case "/api/v1/query", "/explain", "/api/v1/labels", "/api/v1/read":
				require.Equal(t, http.StatusRequestTimeout, resp.StatusCode, path)
				require.Contains(t, string(body), "did not arrive in time", path)
			}
			_, err = c.Read(make([]byte, 1)) // it is closed
			require.Error(t, err, path)
			require.Less(t, time.Since(start), 12*time.Second, path)
		})
	}
	inBubble(t, a, func(t *testing.T, p *pipes) {
		c := p.dial()
		defer c.Close()
		form := "query=1&x=" + strings.Repeat("x", 1<<20)
		_, err := fmt.Fprintf(c, formHeader, "/api/v1/query", len(form))
		require.NoError(t, err)
		go func() {
			for len(form) > 0 {
				n := min(len(form), 10<<10)
				_, _ = io.WriteString(c, form[:n])
				form = form[n:]
				time.Sleep(time.Second)
			}
		}()
		start := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Greater(t, time.Since(start), 100*time.Second)
		_, _ = io.Copy(io.Discard, resp.Body)
	})
}

// What takes longer than any deadline for reading or writing is answered, and the
// connection goes on.
func TestLongQueries(t *testing.T) {
	e := &slow{Engine: newEngine(t, func(o *promql.EngineOpts) { o.Timeout = time.Hour }), takes: 20 * time.Minute}
	a := newTestAPI(t, func(o *Options) { o.Engine, o.Timeout = e, time.Hour })
	inBubble(t, a, func(t *testing.T, p *pipes) {
		c := p.dial()
		defer c.Close()
		form := "query=1"
		for range 2 {
			for _, text := range []string{"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: x\r\n\r\n", fmt.Sprintf(formHeader, "/api/v1/query", len(form)) + form} {
				resp := answerTo(t, c, text)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode, string(b))
			}
		}
	})
}

// many is an engine whose instant queries give a large matrix.
type many struct {
	Engine
	rows int
}

func (m many) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	r.Query = "1"
	query, err := m.Engine.NewQuery(ctx, r)
	return manyQuery{query, m.rows}, err
}

type manyQuery struct {
	promql.Query
	rows int
}

func (q manyQuery) Exec(ctx context.Context) *promql.Result {
	r := q.Query.Exec(ctx)
	m := make(promql.Matrix, q.rows)
	points := make([]promql.FPoint, 11_000)
	for i := range points {
		points[i] = promql.FPoint{T: int64(i) * 1000, F: float64(i) / 7}
	}
	for i := range m {
		m[i] = promql.Series{Metric: labels.FromStrings("i", fmt.Sprint(i)), Floats: points}
	}
	r.Value = m
	return r
}

// Readers that stop are cut off, whatever they read; those that go on slowly are not.
func TestStalledReaders(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer up.Close()
	base, _ := url.Parse(up.URL)
	const timeout = 300 * time.Millisecond
	a := newTestAPI(t, func(o *Options) {
		o.Engine = many{newEngine(t, nil), 40}
		o.Remotes = []*forward.Remote{{Name: "up", Base: base}}
		o.WriteTimeout = timeout
	})
	srv := httptest.NewServer(a)
	defer srv.Close()
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for i := range 50 {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		request := "GET /api/v1/query?query=1"
		switch i % 5 {
		case 1:
			request = "GET /query?format=csv&query=1"
		case 2:
			request = "GET /query?format=arrow&query=1"
		case 3:
			request = "GET /api/v1/metadata?x=1"
		}
		_, err = io.WriteString(c, request+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 100))
		require.NoError(t, err)
		conns = append(conns, c)
	}
	begun := time.Now()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+3 }, 30*time.Second, 20*time.Millisecond,
		"handlers that nobody reads from go on")
	t.Logf("all gone %v after the last began", time.Since(begun))
	for _, c := range conns {
		c.Close()
	}
}

// always is an upstream that has one selection.
type always struct{ sel *selection.Selection }

func (u always) Fetch(context.Context, int64, int64, []*labels.Matcher, selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	return u.sel, nil, nil
}

// Readers of samples and of chunks that stop are cut off, too, and all memory comes back.
func TestStalledRemoteReaders(t *testing.T) {
	sel, err := synthetic.Counters("m", 1000, 5760)
	require.NoError(t, err)
	pool := memory.New(memory.Options{Limit: 1 << 30})
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = selection.Storage{Source: cache.New(always{sel}, cache.Options{HostBytes: 1 << 30})}
		o.WriteTimeout, o.Memory = 300*time.Millisecond, pool
	})
	srv := httptest.NewServer(a)
	defer srv.Close()
	before := runtime.NumGoroutine()
	for i := range 8 {
		typ := prompb.ReadRequest_ResponseType(i % 2)
		data, err := (&prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{typ}, Queries: []*prompb.Query{{
			EndTimestampMs: math.MaxInt64, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "m"}},
		}}}).Marshal()
		require.NoError(t, err)
		body := snappy.Encode(nil, data)
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(c, "POST /api/v1/read HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.NoError(t, err)
		answer := make([]byte, 15)
		_, err = io.ReadFull(c, answer)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK", string(answer))
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+3 && pool.Used() == 0 }, 30*time.Second, 20*time.Millisecond)
}

// One that reads a little now and then gets all of it, however long that takes.
func TestSlowReader(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Engine = many{newEngine(t, nil), 5} })
	for _, query := range []string{"/api/v1/query?query=1", "/query?format=csv&query=1", "/query?format=arrow&query=1"} {
		whole := do(t, a, httptest.NewRequest(http.MethodGet, query, nil)).Body.Len()
		inBubble(t, a, func(t *testing.T, p *pipes) {
			c := p.dial()
			defer c.Close()
			start := time.Now()
			resp := answerTo(t, c, "GET "+query+" HTTP/1.1\r\nHost: x\r\n\r\n")
			read := 0
			for {
				n, err := io.CopyN(io.Discard, resp.Body, 60<<10)
				read += int(n)
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				time.Sleep(20 * time.Second)
			}
			require.Equal(t, whole, read)
			require.Greater(t, time.Since(start), 5*time.Minute)
		})
	}
}

// With HTTP/2 a deadline is a stream's: a query longer than it is answered, a reader that
// stops is cut off.
func TestStalledStreams(t *testing.T) {
	const timeout = 200 * time.Millisecond
	e := &slow{Engine: many{newEngine(t, nil), 60}, takes: 3 * timeout}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(3 * timeout)
		_, _ = io.WriteString(w, " second")
	}))
	defer up.Close()
	base, err := url.Parse(up.URL)
	require.NoError(t, err)
	a := newTestAPI(t, func(o *Options) {
		o.Engine, o.WriteTimeout, o.Remotes = e, timeout, []*forward.Remote{{Name: "up", Base: base}}
	})
	ended := make(chan struct{}, 10)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		a.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	client.Transport.(*http.Transport).DisableCompression = true
	resp, err := client.Get(srv.URL + "/api/v1/metadata")
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "a handler that writes nothing for a while is not a client that reads nothing")
	require.Equal(t, "first second", string(b))
	<-ended
	for _, read := range []bool{true, false} {
		resp, err := client.Get(srv.URL + "/api/v1/query?query=1")
		require.NoError(t, err)
		require.Equal(t, "HTTP/2.0", resp.Proto)
		require.Equal(t, 200, resp.StatusCode)
		if read {
			for range 5 { // of a handler that writes nothing meanwhile
				_, err = io.CopyN(io.Discard, resp.Body, 1<<20)
				require.NoError(t, err)
				time.Sleep(timeout / 2)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
		}
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("the handler goes on")
		}
		if !read {
			_, err = io.Copy(io.Discard, resp.Body)
			require.Error(t, err)
		}
		resp.Body.Close()
	}
}
