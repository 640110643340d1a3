package remoteread

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/selection"
)

// TestAnyPieces: in however many pieces a range is fetched, and wherever it is cut, the samples are
// the store's, of floats and of native histograms, though chunks lie across the cuts.
func TestAnyPieces(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	store := teststorage.New(t, func(o *tsdb.Options) { o.MinBlockDuration = 2 * hour })
	last := fill(t, store)
	first := last - 899*minute
	h := promHandler(store, 1<<20, 0)
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { h.ServeHTTP(w, r) })
	for range 3 {
		mint, maxt := first+r.Int64N(3*hour), last-r.Int64N(3*hour)
		want := query(t, store, mint, maxt, anything...)
		for _, n := range []int64{1, 2, 8} {
			// Pieces begin at multiples of their length: the cuts lie anywhere.
			length := (maxt-mint)/n + 1 + r.Int64N(10_000)
			c := newClient(t, readConfig(t, base), Options{Piece: time.Duration(length) * time.Millisecond, Retries: -1})
			requests.Store(0)
			sel, _, err := c.Fetch(t.Context(), mint, maxt, anything)
			require.NoError(t, err)
			require.InDelta(t, n, requests.Load(), 1)
			require.Equal(t, want, samplesOf(t, sel, mint, maxt), "%d pieces of %d ms", n, length)
		}
	}
}

// pieceStore answers with the samples of one series in six pieces of 10 s. trouble is asked before
// the piece with a number is answered, and whether that has been asked for before.
func pieceStore(t *testing.T, trouble func(w http.ResponseWriter, r *http.Request, piece int64, again bool) (answered bool)) *Client {
	var mu sync.Mutex
	seen := map[int64]bool{}
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		req, err := remote.DecodeReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		piece := req.Queries[0].StartTimestampMs / 10_000
		mu.Lock()
		again := seen[piece]
		seen[piece] = true
		mu.Unlock()
		if !trouble(w, r, piece, again) {
			streamed(w, frames(wireSeries(piece*10_000, 10, "__name__", "a")))
		}
	})
	o := quick()
	o.Piece, o.Retries, o.Concurrency = 10*time.Second, 1, 6
	c := newClient(t, readConfig(t, base), o)
	c.timeout = time.Minute
	return c
}

// fetchSix fetches all of a pieceStore, and what it tells of requests.
func fetchSix(ctx context.Context, c *Client) (*selection.Selection, []selection.Request, error) {
	var mu sync.Mutex
	var told []selection.Request
	sel, _, err := c.Fetch(selection.OnRequest(ctx, func(r selection.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r)
	}), 0, 59_999, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")})
	return sel, told, err
}

// TestPiecesInReverse: pieces that are answered in the order opposite to that of time make the same
// selection.
func TestPiecesInReverse(t *testing.T) {
	var answered [7]chan struct{}
	for k := range answered {
		answered[k] = make(chan struct{})
	}
	close(answered[6])
	c := pieceStore(t, func(w http.ResponseWriter, r *http.Request, piece int64, _ bool) bool {
		select {
		case <-answered[piece+1]:
		case <-r.Context().Done():
			return true
		}
		streamed(w, frames(wireSeries(piece*10_000, 10, "__name__", "a")))
		close(answered[piece])
		return true
	})
	sel, told, err := fetchSix(t.Context(), c)
	require.NoError(t, err)
	require.EqualValues(t, 60, sel.NumSamples())
	require.Equal(t, 1, sel.NumSeries())
	require.Len(t, told, 6)
	for _, r := range told {
		require.Equal(t, "ok", r.Outcome)
		require.EqualValues(t, 10, r.Samples)
		require.Equal(t, 1, r.Series)
		require.EqualValues(t, 10_000, r.MaxT-r.MinT+1)
		require.Positive(t, r.Bytes)
		require.False(t, r.Sent.After(r.FirstByte))
		require.False(t, r.FirstByte.After(r.Ended))
	}
}

// TestPieceFails: a piece that fails is asked for once more, and if it fails again so does the fetch.
func TestPieceFails(t *testing.T) {
	for name, always := range map[string]bool{"once": false, "always": true} {
		t.Run(name, func(t *testing.T) {
			var failed atomic.Int64
			c := pieceStore(t, func(w http.ResponseWriter, _ *http.Request, piece int64, again bool) bool {
				if piece != 3 || again && !always {
					return false
				}
				failed.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			sel, told, err := fetchSix(t.Context(), c)
			if !always {
				require.NoError(t, err)
				require.EqualValues(t, 60, sel.NumSamples())
				require.Len(t, told, 7)
				require.EqualValues(t, 1, failed.Load())
				return
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, http.StatusServiceUnavailable, e.StatusCode)
			require.Nil(t, sel)
			require.EqualValues(t, 2, failed.Load())
		})
	}
}

// TestPieceStalls: a piece that stalls ends the fetch, and so the other pieces.
func TestPieceStalls(t *testing.T) {
	c := pieceStore(t, func(w http.ResponseWriter, r *http.Request, piece int64, _ bool) bool {
		if piece == 2 {
			streamed(w, frames(wireSeries(piece*10_000, 10, "__name__", "a"))[:20])
			w.(http.Flusher).Flush()
		}
		if piece != 0 {
			<-r.Context().Done()
		}
		return piece != 0
	})
	c.timeout = 300 * time.Millisecond
	sel, _, err := fetchSix(t.Context(), c)
	require.ErrorContains(t, err, "300ms")
	require.Nil(t, sel)
	requireIdle(t, c)
}

// TestCancelBetweenPieces: a fetch that is cancelled when some pieces have come brings nothing, and
// leaves no request.
func TestCancelBetweenPieces(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var come atomic.Int64
	c := pieceStore(t, func(_ http.ResponseWriter, r *http.Request, piece int64, _ bool) bool {
		if piece < 3 {
			return false
		}
		<-r.Context().Done()
		return true
	})
	sel, _, err := c.Fetch(selection.OnRequest(ctx, func(r selection.Request) {
		if r.Outcome == "ok" && come.Add(1) == 3 {
			cancel()
		}
	}), 0, 59_999, anything)
	require.Nil(t, sel)
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	require.EqualValues(t, 3, come.Load())
	requireIdle(t, c)
}

// requireIdle: all places are free.
func requireIdle(t *testing.T, c *Client) {
	t.Helper()
	require.True(t, c.lanes.free())
}

// free reports whether nobody has a place.
func (l lanes) free() bool { return len(l.shared)+len(l.small) == 0 }

// TestPlacesForSmall: however many large requests are under way, small ones have places, and leave
// none to large ones.
func TestPlacesForSmall(t *testing.T) {
	l := newLanes(4)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	var large func()
	for range 4 {
		leave, err := l.enter(t.Context(), false)
		require.NoError(t, err)
		large = leave
	}
	for range 3 {
		one, err := l.enter(t.Context(), true)
		require.NoError(t, err)
		two, err := l.enter(t.Context(), true)
		require.NoError(t, err)
		_, err = l.enter(short(), true)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		one()
		_, err = l.enter(short(), false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		two()
	}
	large()
	_, err := l.enter(t.Context(), false)
	require.NoError(t, err)
}

// TestLanesAreLeft: who gives up waiting takes no place, whenever that is.
func TestLanesAreLeft(t *testing.T) {
	l := newLanes(2)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
			defer cancel()
			if leave, err := l.enter(ctx, i%2 == 0); err == nil {
				time.Sleep(50 * time.Microsecond)
				leave()
			}
		})
	}
	wg.Wait()
	require.True(t, l.free())
}

// panicking is a transport with a bug.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

// A panic in one of the requests of a fetch, each of which has a goroutine, is its error.
func TestPanicIsAnError(t *testing.T) {
	c := newClient(t, readConfig(t, "http://x"), Options{Piece: 40 * time.Second, Retries: -1})
	c.http = &http.Client{Transport: panicking{}}
	_, _, err := c.Fetch(t.Context(), 0, 200_000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")})
	var p *rescue.Panic
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug", p.Value)
}
