package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// send sends body as a request.
func send(h http.Handler, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(body)))
	return w
}

// compressed returns req as it is sent.
func compressed(t *testing.T, req *prompb.ReadRequest) []byte {
	t.Helper()
	data, err := proto.Marshal(req)
	require.NoError(t, err)
	return snappy.Encode(nil, data)
}

// gzipped returns body as one sends it who takes the door for another one.
func gzipped(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	require.NoError(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// bomb is a snappy stream that says that it is n bytes long.
func bomb(n uint64) []byte { return append(binary.AppendUvarint(nil, n), 0, 'x') }

// Requests that are wrong get the status and the text that Prometheus gives them.
func TestBrokenRequests(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}
	h, theirs := newHandler(t, m), reference(m, labels.EmptyLabels())
	type types = []prompb.ReadRequest_ResponseType
	for name, body := range map[string][]byte{
		"nothing":             {},
		"no snappy":           []byte("\xff\xff\xff\xff\xff\xff"),
		"gzip":                gzipped(t, compressed(t, &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 1)}})),
		"cut off":             compressed(t, &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 1)}})[:10],
		"no protobuf":         snappy.Encode(nil, []byte("what is this")),
		"a bomb":              bomb(31 << 20),
		"too large a bomb":    bomb(33 << 20),
		"the largest bomb":    bomb(math.MaxUint32),
		"more than a bomb":    bomb(math.MaxUint64),
		"type of a matcher":   compressed(t, &prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{matcher(9, "a", "b")}}}}),
		"regular expression":  compressed(t, &prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_RE, "a", "(")}}}}),
		"unknown answer type": compressed(t, &prompb.ReadRequest{AcceptedResponseTypes: types{7, 8}}),
	} {
		want, got := send(theirs, body), send(h, body)
		require.GreaterOrEqual(t, want.Code, 400, name)
		require.Equal(t, want.Code, got.Code, name)
		require.Equal(t, want.Body.String(), got.Body.String(), name)
		require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"), name)
		require.Empty(t, got.Header().Get("Content-Encoding"), name)
	}
	for name, req := range map[string]*prompb.ReadRequest{
		"no queries, samples":      {},
		"no queries, chunks":       {AcceptedResponseTypes: streamed},
		"an unknown type, too":     {AcceptedResponseTypes: types{7, prompb.ReadRequest_SAMPLES}},
		"nothing matches, samples": {Queries: []*prompb.Query{query(0, 1), query(0, 1)}},
		"nothing matches, chunks":  {Queries: []*prompb.Query{query(0, 1), query(0, 1)}, AcceptedResponseTypes: streamed},
		"the end before the start": {Queries: []*prompb.Query{query(1, 0)}, AcceptedResponseTypes: streamed},
	} {
		want, got := ask(t, theirs, req), ask(t, h, req)
		require.Equal(t, http.StatusOK, want.Code, name)
		require.Equal(t, want.Code, got.Code, name)
		require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"), name)
		require.Equal(t, want.Header().Get("Content-Encoding"), got.Header().Get("Content-Encoding"), name)
		if len(req.AcceptedResponseTypes) == 2 && req.AcceptedResponseTypes[0] == streamed[0] {
			require.Empty(t, got.Body.Bytes())
			continue
		}
		a, err := snappy.Decode(nil, want.Body.Bytes())
		require.NoError(t, err)
		b, err := snappy.Decode(nil, got.Body.Bytes())
		require.NoError(t, err)
		require.Equal(t, a, b, name)
	}
	require.Zero(t, m.open.Load())
}

// A few bytes do not make the handler take much memory.
func TestBombsTakeNoMemory(t *testing.T) {
	h := newHandler(t, &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})})
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"declared length": {bomb(31 << 20), "corrupt"},
		"queries":         {snappy.Encode(nil, bytes.Repeat([]byte{0x0a, 0}, 500_000)), "1001 queries or more; the limit is 1000, which --storage.remote.read-max-queries sets"},
		"groupings":       {snappy.Encode(nil, append([]byte("\x0a\xc4\x84\x3d\x22\xc0\x84\x3d"), bytes.Repeat([]byte{0x2a, 0}, 500_000)...)), "201 matchers or labels to group by or more; the most that --query.max-items allows is 200"},
		"types":           {snappy.Encode(nil, append([]byte("\x12\xc0\x84\x3d"), make([]byte, 1_000_000)...)), "1000000 bytes of accepted response types or more; the limit is 1000"},
		"types, one each": {snappy.Encode(nil, bytes.Repeat([]byte{0x10, 1}, 500_000)), "1001 bytes of accepted response types or more; the limit is 1000"},
		"matchers":        {snappy.Encode(nil, append([]byte("\x0a\xc0\x84\x3d"), bytes.Repeat([]byte{0x1a, 0}, 500_000)...)), "201 matchers or labels to group by or more; the most that --query.max-items allows is 200"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, h.o.Queryable, func(o *Options) { o.MaxQueries = 1000 })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := send(h, c.body)
			runtime.ReadMemStats(&after)
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.Contains(t, w.Body.String(), c.want)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
		})
	}
}

func TestLimits(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1, 2, 3}, `{a="2"}`: {4, 5}})}
	q := func(mint, maxt int64) *prompb.Query {
		return &prompb.Query{StartTimestampMs: mint, EndTimestampMs: maxt, Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_NEQ, "a", "")}}
	}
	for name, c := range map[string]struct {
		set  func(*Options)
		req  prompb.ReadRequest
		want string // of the error; none if empty
	}{
		"samples":                   {func(o *Options) { o.SampleLimit = 4 }, prompb.ReadRequest{Queries: []*prompb.Query{q(0, 9)}}, "exceeded sample limit (4)"},
		"samples of cut chunks":     {func(o *Options) { o.SampleLimit = 2 }, prompb.ReadRequest{Queries: []*prompb.Query{q(2, 4)}}, "exceeded sample limit (2)"},
		"enough samples":            {func(o *Options) { o.SampleLimit = 5 }, prompb.ReadRequest{Queries: []*prompb.Query{q(0, 9), q(0, 9)}}, ""},
		"enough for cut chunks":     {func(o *Options) { o.SampleLimit = 3 }, prompb.ReadRequest{Queries: []*prompb.Query{q(2, 4)}}, ""},
		"samples are not of chunks": {func(o *Options) { o.SampleLimit = 1 }, prompb.ReadRequest{Queries: []*prompb.Query{q(0, 9)}, AcceptedResponseTypes: streamed}, ""},
		"enough queries":            {func(o *Options) { o.MaxQueries = 2 }, prompb.ReadRequest{Queries: []*prompb.Query{q(0, 9), q(0, 9)}}, ""},
	} {
		w := ask(t, newHandler(t, m, c.set), &c.req)
		if c.want == "" {
			require.Equal(t, http.StatusOK, w.Code, name)
			continue
		}
		require.Equal(t, http.StatusBadRequest, w.Code, name)
		require.Equal(t, c.want+"\n", w.Body.String(), name)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), name)
		require.Empty(t, w.Header().Get("Content-Encoding"), name)
	}
	require.Zero(t, m.open.Load())
}

// failsFor is a storage that fails for series of a name, after some were found.
type failsFor struct {
	*inMemory
	name string
}

func (s failsFor) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := s.inMemory.ChunkQuerier(mint, maxt)
	return failingQuerier{q, s.name}, err
}

type failingQuerier struct {
	storage.ChunkQuerier
	name string
}

func (q failingQuerier) SelectChunks(ctx context.Context, h *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	if ms[0].Value == q.name {
		return nil, nil, errors.New("nobody knows " + q.name)
	}
	return q.ChunkQuerier.(selection.Querier).SelectChunks(ctx, h, ms...)
}

// If one of several queries fails, the request does, in both forms: with a status where nothing
// has gone out, and else with an answer that no reader takes for whole.
func TestOneQueryFails(t *testing.T) {
	wrong := &prompb.Query{EndTimestampMs: latest, Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_EQ, "__name__", "x")}}
	for name, sel := range map[string]*selection.Selection{
		"small": holding(t, map[string][]int64{`{__name__="m"}`: {1}}), "large": large(t, chunkenc.EncXOR),
	} {
		m := failsFor{&inMemory{sel: sel}, "x"}
		for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
			w := ask(t, newHandler(t, m), &prompb.ReadRequest{Queries: []*prompb.Query{query(0, latest), wrong, query(0, latest)}, AcceptedResponseTypes: types})
			require.True(t, strings.HasSuffix(w.Body.String(), "nobody knows x\n"), name)
			if broken := name == "large" && len(types) > 1; broken {
				in, err := remote.NewChunkedReader(w.Body, 1<<30, nil), error(nil)
				for err == nil {
					err = in.NextProto(&prompb.ChunkedReadResponse{})
				}
				require.NotErrorIs(t, err, io.EOF)
				continue
			}
			require.Equal(t, http.StatusInternalServerError, w.Code, name)
			require.Equal(t, "nobody knows x\n", w.Body.String())
		}
		require.Zero(t, m.open.Load())
	}
}

// One request waits for another as long as it has time.
func TestConcurrencyAndTimeout(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}}), wait: make(chan struct{})}
	h := newHandler(t, m, func(o *Options) { o.Queue = oneSlot() })
	req := &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 1)}}
	first := make(chan int)
	go func() { first <- ask(t, h, req).Code }()
	require.Eventually(t, func() bool { return m.open.Load() == 1 }, 5*time.Second, time.Millisecond)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, requestOf(t, req).WithContext(ctx))
	require.Equal(t, http.StatusInternalServerError, w.Code, "as from a Prometheus")
	require.Equal(t, "context deadline exceeded\n", w.Body.String())
	require.EqualValues(t, 1, m.open.Load())

	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	w = httptest.NewRecorder()
	h.ServeHTTP(w, requestOf(t, req).WithContext(ctx))
	require.Equal(t, statusClientGone, w.Code)

	for what, limits := range map[string]queue.Limits{
		"the queue is full":         {Slots: 1, MaxWait: time.Millisecond},
		"longest wait in the queue": {Slots: 1, MaxWaiting: 1, MaxWait: time.Millisecond},
	} {
		h.o.Queue.Set(limits)
		w = ask(t, h, req)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), what)
		require.Contains(t, w.Body.String(), "--storage.remote.read-concurrent-limit")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	}

	close(m.wait)
	require.Equal(t, http.StatusOK, <-first)
	require.Equal(t, http.StatusOK, ask(t, h, req).Code, "the gate is open again")

	m.wait = make(chan struct{})
	h = newHandler(t, m, func(o *Options) { o.Timeout = 20 * time.Millisecond })
	for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
		req.AcceptedResponseTypes = types
		w := ask(t, h, req)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "remote read took longer than query.timeout, which is 20ms\n", w.Body.String())
	}
	require.Zero(t, m.open.Load())
}

// A client that sends its request slowly has no more time than others.
func TestSlowRequest(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}
	srv := httptest.NewServer(newHandler(t, m, func(o *Options) { o.Timeout, o.Queue = 50*time.Millisecond, oneSlot() }))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	require.NoError(t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 408 Request Timeout\r\n", status)

	resp, err := srv.Client().Post(srv.URL, "", bytes.NewReader(compressed(t, &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 1)}})))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-protobuf"))
}

// TestAnswerMemory: what is held of an answer of samples is taken from the process's
// memory, and where there is none the reader is told to come back.
func TestAnswerMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 256 << 20, Wait: time.Millisecond})
	m := &inMemory{sel: large(t, chunkenc.EncXOR)}
	h := New(Options{Queryable: m, Memory: pool})
	r := &prompb.ReadRequest{Queries: []*prompb.Query{query(0, math.MaxInt64)}}
	require.Equal(t, http.StatusOK, ask(t, h, r).Code)
	require.Zero(t, pool.Used())

	others := pool.Lease(memory.Evaluation)
	require.NoError(t, others.Grow(t.Context(), 200<<20))
	w := ask(t, h, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "--memory.limit")
	others.Release()
	require.Zero(t, pool.Used())
}

// A reader of samples that stops reading holds memory and no slot. When the time for writing is
// over, it is cut off, and the memory is given back.
func TestReaderOfSamplesStops(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 256 << 20})
	m := &inMemory{sel: large(t, chunkenc.EncXOR)}
	h := newHandler(t, m, func(o *Options) { o.Memory, o.Queue = pool, oneSlot() })
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-over
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
		}()
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	conn := startReading(t, srv, sampled, query(0, 10*latest))
	defer conn.Close()
	_, err := io.ReadFull(conn, make([]byte, 100))
	require.NoError(t, err)
	require.Positive(t, pool.Used())
	require.Equal(t, http.StatusOK, ask(t, h, &prompb.ReadRequest{Queries: []*prompb.Query{query(0, 1)}}).Code, "the slot is free")
	close(over)
	require.Eventually(t, func() bool { return pool.Used() == 0 && m.open.Load() == 0 }, 30*time.Second, 10*time.Millisecond)
}

// Selectors that match everything are held to the memory of the process, and to what a fetch may
// bring, and the reader is told which.
func TestEverything(t *testing.T) {
	for want, c := range map[string]struct {
		err  error
		code int
	}{
		"--memory.limit": {&memory.TooLargeError{Limit: 1 << 30}, http.StatusUnprocessableEntity},
		"try again":      {&memory.BusyError{Limit: 1 << 30}, http.StatusServiceUnavailable},
		"its byte limit": {selection.ErrTooLarge, http.StatusUnprocessableEntity},
	} {
		m := &inMemory{err: fmt.Errorf("fetching: %w", c.err)}
		for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
			q := &prompb.Query{EndTimestampMs: latest, Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_RE, "__name__", ".*")}}
			w := ask(t, newHandler(t, m), &prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: types})
			require.Equal(t, c.code, w.Code, want)
			require.Contains(t, w.Body.String(), want)
		}
	}
}

// TestLists: matchers of one query, and labels that it groups by, are refused beyond the limit of a
// list. Lists of several queries are several.
func TestLists(t *testing.T) {
	const most = 7
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}
	h := newHandler(t, m, func(o *Options) { o.Limits = planner.Limits{Items: most} })
	matching := func(n, grouping int) *prompb.Query {
		q := &prompb.Query{EndTimestampMs: 9, Hints: &prompb.ReadHints{By: true}}
		for i := range n {
			q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_NEQ, fmt.Sprint("l", i), "x"))
		}
		for i := range grouping {
			q.Hints.Grouping = append(q.Hints.Grouping, fmt.Sprint("l", i))
		}
		return q
	}
	for name, c := range map[string]struct {
		queries []*prompb.Query
		beyond  bool
	}{
		"matchers at the limit":             {[]*prompb.Query{matching(most, 0)}, false},
		"matchers beyond it":                {[]*prompb.Query{matching(most+1, 0)}, true},
		"labels to group by at the limit":   {[]*prompb.Query{matching(1, most)}, false},
		"labels to group by beyond it":      {[]*prompb.Query{matching(1, most+1)}, true},
		"matchers and labels, each at it":   {[]*prompb.Query{matching(most, most)}, false},
		"several queries, each at it":       {[]*prompb.Query{matching(most, most), matching(most, most), matching(most, 0)}, false},
		"the last query beyond it":          {[]*prompb.Query{matching(1, 0), matching(most, 0), matching(most+3, 0)}, true},
		"the first query beyond it, labels": {[]*prompb.Query{matching(1, most+2), matching(1, 0)}, true},
	} {
		for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
			w := ask(t, h, &prompb.ReadRequest{Queries: c.queries, AcceptedResponseTypes: types})
			if !c.beyond {
				require.Equal(t, http.StatusOK, w.Code, name)
				continue
			}
			require.Equal(t, http.StatusBadRequest, w.Code, name)
			want := fmt.Sprintf("the request has a list of %d matchers or labels to group by or more; the most that --query.max-items allows is %d\n", most+1, most)
			require.Equal(t, want, w.Body.String(), name)
		}
	}
	require.Zero(t, m.open.Load())
}

// TestListsTakeMemory: matchers within the limits take more than the bytes of their request, which
// is refused before they are decoded if there is less.
func TestListsTakeMemory(t *testing.T) {
	long := &prompb.Query{EndTimestampMs: 9}
	for i := range 10_000 {
		long.Matchers = append(long.Matchers, matcher(prompb.LabelMatcher_NEQ, fmt.Sprint("l", i), "x"))
	}
	for limit, code := range map[int64]int{1 << 20: http.StatusUnprocessableEntity, 8 << 20: http.StatusOK} {
		h := newHandler(t, &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}, func(o *Options) {
			o.Limits.Items, o.Memory = -1, memory.New(memory.Options{Limit: limit})
		})
		require.Equal(t, code, ask(t, h, &prompb.ReadRequest{Queries: []*prompb.Query{long}}).Code, "%d bytes", limit)
	}
}

// TestTooLarge: a remote read that alone finds no memory is at fault itself, and the same one, over a
// range that begins at about the same time, is refused before anything is fetched.
func TestTooLarge(t *testing.T) {
	const limit = 1 << 30
	read := func(start int64, name string) *prompb.ReadRequest {
		return &prompb.ReadRequest{Queries: []*prompb.Query{{
			StartTimestampMs: start, EndTimestampMs: start + 1000,
			Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_EQ, "a", name)},
		}}}
	}
	for name, c := range map[string]struct {
		err   error
		alone bool
		code  int
	}{
		"busy, alone":  {&memory.BusyError{Limit: limit}, true, http.StatusUnprocessableEntity},
		"busy, others": {&memory.BusyError{Limit: limit}, false, http.StatusServiceUnavailable},
		"too large":    {&memory.TooLargeError{Limit: limit}, false, http.StatusUnprocessableEntity},
	} {
		m := &inMemory{err: c.err}
		h := newHandler(t, m, func(o *Options) {
			o.TooLarge, o.Memory, o.Alone = memory.NewTooLarge(), memory.New(memory.Options{Limit: limit}), func() bool { return c.alone }
		})
		require.Equal(t, c.code, ask(t, h, read(0, "x")).Code, name)
		m.err, m.sel = nil, holding(t, map[string][]int64{`{a="x"}`: {1}}) // asked again it would be answered
		refused := c.code == http.StatusUnprocessableEntity
		w := ask(t, h, read(15_000, "x"))
		if refused {
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, name)
			require.Contains(t, w.Body.String(), "not tried again", name)
		} else {
			require.Equal(t, http.StatusOK, w.Code, name)
		}
		require.Equal(t, http.StatusOK, ask(t, h, read(2*time.Hour.Milliseconds(), "x")).Code, "another time")
		require.Equal(t, http.StatusOK, ask(t, h, read(0, "y")).Code, "other series")
	}
}
