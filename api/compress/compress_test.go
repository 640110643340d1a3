package compress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
)

// pointsJSON is JSON like that of range queries, of that number of bytes or a little more.
func pointsJSON(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := []byte(`{"metric":{"__name__":"m"},"values":[`)
	for i := 0; len(b) < size; i++ {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(1_795_000_000+i*60), 10)
		b = append(b, `,"`...)
		b = strconv.AppendFloat(b, float64(r.IntN(30_000))/285, 'f', -1, 64)
		b = append(b, `"],`...)
	}
	return b
}

// read takes the coding off a body, with readers that are not those of the package.
func read(t *testing.T, encoding string, body io.Reader) []byte {
	t.Helper()
	var err error
	switch encoding {
	case "gzip":
		body, err = gzip.NewReader(body)
	case "zstd":
		body, err = zstd.NewReader(body)
	default:
		require.Empty(t, encoding)
	}
	require.NoError(t, err)
	b, err := io.ReadAll(body)
	require.NoError(t, err)
	return b
}

// TestAnswers: whatever the size, the coding, the number of cores and the way in which it is
// written, the client reads what was written.
func TestAnswers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cores, large := []int{1, 3, 16}, 5_000_000
	if testing.Short() {
		cores, large = cores[1:2], 5*block
	}
	for _, cores := range cores {
		runtime.GOMAXPROCS(cores)
		for _, size := range []int{0, 1, least - 1, least, 10_000, block - 1, block, block + 1, 3 * block, large} {
			for _, accept := range []string{"", "gzip", "zstd", "br", "gzip;q=0"} {
				for _, piece := range []int{100, 50_000, 10 << 20} {
					if piece == 100 && size > block*2 {
						continue
					}
					want := pointsJSON(size)[:size]
					h := Handler(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						for b := want; len(b) > 0; b = b[min(piece, len(b)):] {
							n, err := w.Write(b[:min(piece, len(b))])
							require.NoError(t, err)
							require.Equal(t, min(piece, len(b)), n)
						}
					}, memory.New(memory.Options{Limit: 1 << 30}))
					r := httptest.NewRequest(http.MethodGet, "/", nil)
					r.Header.Set("Accept-Encoding", accept)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					encoding := w.Header().Get("Content-Encoding")
					what := fmt.Sprint(cores, " ", size, " ", accept, " ", piece)
					require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"), what)
					if size >= least && (accept == "gzip" || accept == "zstd") {
						require.Equal(t, accept, encoding, what)
						require.Less(t, w.Body.Len(), size, what)
					} else {
						require.Empty(t, encoding, what)
					}
					require.True(t, bytes.Equal(want, read(t, encoding, w.Body)), what)
				}
			}
		}
	}
}

func TestPreferred(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "br, gzip": "gzip", "gzip, deflate, br, zstd": "gzip", "zstd, gzip;q=0.5": "zstd", "deflate": "",
		"gzip;q=0": "", "gzip; q=0.8 , zstd ;q=0.9": "zstd",
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		Handler(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pointsJSON(10_000)) }, nil).ServeHTTP(w, r)
		require.Equal(t, want, w.Header().Get("Content-Encoding"), accept)
	}
}

// TestStatus: what has no body, or an encoding of its own, is left as it is.
func TestStatus(t *testing.T) {
	large := pointsJSON(10_000)
	for name, c := range map[string]struct {
		method   string
		handler  http.HandlerFunc
		code     int
		encoding string
		body     []byte
	}{
		"nothing":      {"GET", func(http.ResponseWriter, *http.Request) {}, 200, "", nil},
		"no content":   {"GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", nil},
		"not modified": {"GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, 304, "", nil},
		"error": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			w.WriteHeader(422)
			w.WriteHeader(500)
			_, _ = w.Write(large)
		}, 422, "gzip", large},
		"compressed already": {"GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write(large)
		}, 200, "br", nil},
	} {
		srv := httptest.NewServer(Handler(c.handler, nil))
		r, err := http.NewRequest(c.method, srv.URL, nil)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err, name)
		require.Equal(t, c.code, resp.StatusCode, name)
		require.Equal(t, c.encoding, resp.Header.Get("Content-Encoding"), name)
		if c.body != nil {
			require.Equal(t, c.body, read(t, c.encoding, resp.Body), name)
			require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
		}
		resp.Body.Close()
		srv.Close()
	}
}

// TestFlush: what was flushed can be read before the answer ends.
func TestFlush(t *testing.T) {
	for _, accept := range []string{"gzip", "zstd"} {
		seen := make(chan struct{})
		srv := httptest.NewServer(Handler(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-seen
			_, _ = io.WriteString(w, "second\n")
		}, nil))
		r, err := http.NewRequest(http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", accept)
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		var body io.Reader
		switch accept {
		case "gzip":
			body, err = gzip.NewReader(resp.Body)
		case "zstd":
			body, err = zstd.NewReader(resp.Body)
		}
		require.NoError(t, err)
		first := make([]byte, 6)
		_, err = io.ReadFull(body, first)
		require.NoError(t, err, accept)
		require.Equal(t, "first\n", string(first))
		close(seen)
		second, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "second\n", string(second))
		resp.Body.Close()
		srv.Close()
	}
}

// TestBrokenOff: an answer that a panic ends is no complete one, whatever its size, and
// nothing of it goes on.
func TestBrokenOff(t *testing.T) {
	for _, size := range []int{10, 100_000, 3_000_000} {
		for _, accept := range []string{"gzip", "zstd"} {
			pool := memory.New(memory.Options{Limit: 1 << 30})
			srv := httptest.NewServer(Handler(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(pointsJSON(size))
				panic(http.ErrAbortHandler)
			}, pool))
			r, err := http.NewRequest(http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			r.Header.Set("Accept-Encoding", accept)
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			require.Error(t, err, "%d %s", size, accept)
			srv.Close()
			require.Zero(t, pool.Parts()[string(memory.Answers)])
		}
	}
}

// failing is a client that has gone.
type failing struct{ http.ResponseWriter }

var errGone = errors.New("gone")

func (failing) Write([]byte) (int, error) { return 0, errGone }

// TestGone: the handler of a client that has gone is told so, and ends.
func TestGone(t *testing.T) {
	b := pointsJSON(1 << 20)
	for _, accept := range []string{"gzip", "zstd"} {
		h := Handler(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(b); err != nil {
					require.ErrorIs(t, err, errGone)
					return
				}
			}
		}, nil)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		h.ServeHTTP(failing{httptest.NewRecorder()}, r)
	}
}

// panics is a client whose connection panics.
type panics struct{ http.ResponseWriter }

func (panics) Write([]byte) (int, error) { panic("a connection's") }

// TestConnectionPanics: what a connection panics with is an error of the answer, not the end of the
// process.
func TestConnectionPanics(t *testing.T) {
	s := &gzipStream{to: &sink{ResponseWriter: panics{httptest.NewRecorder()}, blocks: func() int { return 2 }}, held: new([]byte)}
	_, _ = s.Write(pointsJSON(block))
	require.ErrorContains(t, s.Flush(), "a connection's")
	require.ErrorContains(t, s.Close(), "a connection's")
}

// TestOneMember: gzip on several cores is one member, since not every client reads several.
func TestOneMember(t *testing.T) {
	to := httptest.NewRecorder()
	s := &gzipStream{to: &sink{ResponseWriter: to, blocks: func() int { return 3 }}, held: new([]byte)}
	want := pointsJSON(4 * block)
	_, err := s.Write(want)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	z, err := gzip.NewReader(to.Body)
	require.NoError(t, err)
	z.Multistream(false)
	got, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

// stalled is a client that reads nothing until it may.
type stalled struct {
	http.ResponseWriter
	may chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	<-s.may
	return s.ResponseWriter.Write(p)
}

// TestStalled: a client that reads nothing holds up the handler after a bounded number of
// bytes.
func TestStalled(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	b := pointsJSON(block)
	for _, accept := range []string{"gzip", "zstd"} {
		written, done := make(chan int, 1000), make(chan struct{})
		may := make(chan struct{})
		go func() {
			defer close(done)
			h := Handler(func(w http.ResponseWriter, _ *http.Request) {
				for range 150 {
					_, _ = w.Write(b)
					written <- len(b)
				}
			}, nil)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", accept)
			h.ServeHTTP(stalled{httptest.NewRecorder(), may}, r)
		}()
		time.Sleep(50 * time.Millisecond) // more time would not let more through
		require.Less(t, len(written), 100, accept)
		close(may)
		<-done
		require.Len(t, written, 150)
	}
}

// TestLittleMemory: where there is no memory for blocks side by side, they go one by one.
func TestLittleMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 1, blocks(ctx, pool.Lease(memory.Answers)))
	require.GreaterOrEqual(t, blocks(t.Context(), nil), runtime.GOMAXPROCS(0))
}

func BenchmarkHandler(b *testing.B) {
	body := pointsJSON(16 << 20)
	for _, accept := range []string{"", "gzip", "zstd"} {
		b.Run(strings.TrimPrefix(accept+" ", " "), func(b *testing.B) {
			h := Handler(func(w http.ResponseWriter, _ *http.Request) {
				for b := body; len(b) > 0; b = b[min(64<<10, len(b)):] {
					_, _ = w.Write(b[:min(64<<10, len(b))])
				}
			}, nil)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", accept)
			b.SetBytes(int64(len(body)))
			size := 0
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				size = w.Body.Len()
			}
			b.ReportMetric(float64(len(body))/float64(size), "times-smaller")
		})
	}
}
