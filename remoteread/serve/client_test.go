package serve

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// large makes a selection whose answer is some 20 MB, more than the buffers of a connection.
func large(t testing.TB, e chunkenc.Encoding) *selection.Selection {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	b := selection.NewBuilder(0)
	ts := int64(1)
	minT, maxT, data := encode(t, r, e, &ts, 1000)
	for i := range 4000 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i)))
		require.NoError(t, b.Chunk(e, minT, maxT, data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, sel.PayloadBytes(), int64(10<<20))
	return sel
}

// counting counts the bytes that were written.
type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n.Add(int64(n))
	return n, err
}

func (c counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A reader that stops reading holds up no more than what is on the way, and when it goes,
// the querier is closed and nothing goes on (see TestMain).
func TestReaderStopsAndGoes(t *testing.T) {
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		m := &inMemory{sel: large(t, e)}
		h := newHandler(t, m, func(o *Options) { o.Queue = oneSlot() })
		var sent atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(counting{w, &sent}, r) }))
		conn := startReading(t, srv, query(0, 10*latest))
		some := make([]byte, 1000)
		_, err := io.ReadFull(conn, some)
		require.NoError(t, err)
		last := int64(-1)
		require.Eventually(t, func() bool { // nothing is written any more
			now := sent.Load()
			same := now == last
			last = now
			return same && now > 0
		}, 10*time.Second, 200*time.Millisecond)
		require.EqualValues(t, 1, m.open.Load())
		require.Less(t, sent.Load(), m.sel.PayloadBytes()/2, "the rest is not made before it is read")

		require.NoError(t, conn.Close())
		require.Eventually(t, func() bool { return m.open.Load() == 0 }, 10*time.Second, 10*time.Millisecond)
		srv.Close()
	}
}

// startReading sends a request for chunks over a connection of its own.
func startReading(t *testing.T, srv *httptest.Server, q *prompb.Query) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(16<<10))
	body := compressed(t, &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{q}})
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	return conn
}

// A reader that stops reading is cut off when the time is over.
func TestReaderStopsUntilTimeout(t *testing.T) {
	m := &inMemory{sel: large(t, chunkenc.EncXOR)}
	srv := httptest.NewServer(newHandler(t, m, func(o *Options) { o.Timeout = 100 * time.Millisecond }))
	defer srv.Close()
	conn := startReading(t, srv, query(0, 10*latest))
	defer conn.Close()
	require.Eventually(t, func() bool { return m.open.Load() == 1 }, 5*time.Second, time.Millisecond)
	start := time.Now()
	require.Eventually(t, func() bool { return m.open.Load() == 0 }, 10*time.Second, 10*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
}

// An answer that fails on the way ends with the error's text, which is no frame.
func TestFailsOnTheWay(t *testing.T) {
	r := seeded(t)
	b := selection.NewBuilder(0)
	for i := range 3000 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i)))
		ts := int64(1)
		minT, maxT, data := encode(t, r, chunkenc.EncXOR, &ts, 20)
		if i == 2500 {
			data = slices.Clone(data[:12]) // no more than the first sample
			maxT = latest
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, minT, maxT, data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	m := &inMemory{sel: sel}
	discarded := false
	sel.SetDiscard(func() { discarded = true })
	srv := httptest.NewServer(newHandler(t, m))
	defer srv.Close()
	resp, err := srv.Client().Post(srv.URL, "", bytes.NewReader(compressed(t, &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(0, latest-1)}})))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	in := remote.NewChunkedReader(resp.Body, 1<<20, nil)
	n := 0
	for err = nil; err == nil; n++ {
		err = in.NextProto(&prompb.ChunkedReadResponse{})
	}
	require.NotErrorIs(t, err, io.EOF, "nobody takes it for whole")
	require.Equal(t, 2500, n-1, "what was right has come")
	require.True(t, discarded, "it is fetched again next time")

	// With samples there is a status.
	w := ask(t, newHandler(t, m), &prompb.ReadRequest{Queries: []*prompb.Query{query(0, latest-1)}})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "corrupt chunk in series {__name__=\"m\", i=\"02500\"}")
	// And where nothing was sent yet, with chunks.
	q := query(0, latest-1)
	q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_EQ, "i", "02500"))
	w = ask(t, newHandler(t, m), &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{q}})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "corrupt chunk")
	require.Zero(t, m.open.Load())
}
