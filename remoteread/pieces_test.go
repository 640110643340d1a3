package remoteread

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/parallel"
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
			sel, _, err := c.Fetch(t.Context(), mint, maxt, anything, selection.Fetch{})
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
func fetchSix(ctx context.Context, c *Client) (*selection.Selection, []selection.Exchange, error) {
	var told selection.Stats
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")}
	sel, _, err := c.Fetch(ctx, 0, 59_999, ms, selection.Fetch{Request: selection.Request{Stats: &told}})
	all, _ := told.Exchanges()
	return sel, all, err
}

// TestLaterPiecesFit: pieces that come after another lie in one slab each, of about their size, or two.
func TestLaterPiecesFit(t *testing.T) {
	const series, samples = 2000, 10
	c := pieceStore(t, func(w http.ResponseWriter, _ *http.Request, piece int64, _ bool) bool {
		var all []*prompb.ChunkedSeries
		for i := range series {
			all = append(all, wireSeries(piece*10_000, samples, "__name__", "a", "i", fmt.Sprintf("%04d", i)))
		}
		streamed(w, frames(all...))
		return true
	})
	c.lanes = newLanes(1)
	sel, _, err := fetchSix(t.Context(), c)
	require.NoError(t, err)
	require.EqualValues(t, 6*series*samples, sel.NumSamples())
	one, _, err := c.Fetch(t.Context(), 0, 9_999, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")}, selection.Fetch{})
	require.NoError(t, err)
	require.Greater(t, one.NumSlabs(), 2)
	require.Less(t, sel.NumSlabs(), 5*one.NumSlabs(), "not six times")
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
	sel, _, err := c.Fetch(ctx, 0, 59_999, anything, selection.Fetch{Came: func(selection.Part) {
		if come.Add(1) == 3 {
			cancel()
		}
	}})
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

// free reports whether no request has a place.
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
	_, _, err := c.Fetch(t.Context(), 0, 200_000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}, selection.Fetch{})
	var p *parallel.Panic
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug", p.Value)
}

// labelled returns n series, in label order. f returns names and values.
func labelled(n int, f func(i int) []string) []labels.Labels {
	out := make([]labels.Labels, n)
	for i := range out {
		out[i] = labels.FromStrings(append(f(i), "__name__", "m", "i", fmt.Sprintf("%05d", i))...)
	}
	slices.SortFunc(out, labels.Compare)
	return out
}

func TestDivide(t *testing.T) {
	const n = 2 * partSeries
	for _, test := range []struct {
		name   string
		series []labels.Labels
		want   division
	}{
		{"none", nil, division{}},
		{"too few", labelled(n-1, func(i int) []string { return []string{"a", fmt.Sprint(i % 2)} }), division{}},
		{"two values", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(i % 2)} }), division{"a", []string{"0"}}},
		{"no value and one", labelled(n, func(i int) []string {
			if i%2 == 0 {
				return nil
			}
			return []string{"a", "b"}
		}), division{}}, // of one value
		{"no value and two", labelled(n, func(i int) []string {
			if i%2 == 0 {
				return nil
			}
			return []string{"a", fmt.Sprint(i % 4)}
		}), division{"a", []string{"1|3"}}},
		{"one value has nearly all", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(min(i%10, 1))} }), division{}},
		{"of unequal values", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(min(i%5, 3))} }), division{"a", []string{"3|2"}}},
		{"the fewest values", labelled(n, func(i int) []string { return []string{"b", fmt.Sprint(i % 3), "c", fmt.Sprint(i % 2)} }), division{"c", []string{"0"}}},
		{"targets first", labelled(n, func(i int) []string {
			return []string{"a", fmt.Sprint(i % 2), "instance", fmt.Sprint(i % 4), "job", fmt.Sprint(i % 2)}
		}), division{"instance", []string{"0|2"}}},
		{"one instance", labelled(n, func(i int) []string {
			return []string{"instance", "i", "job", fmt.Sprint(i % 2)}
		}), division{"job", []string{"0"}}},
		{"values that mean something else", labelled(n, func(i int) []string { return []string{"a", []string{`x|y.\`, "z"}[i%2]} }), division{"a", []string{`x\|y\.\\`}}},
		{"long values", labelled(n, func(i int) []string { return []string{"a", strings.Repeat("x", maxDivideBytes/2) + fmt.Sprint(i%2)} }), division{}},
		{"three parts", labelled(3*partSeries, func(i int) []string { return []string{"a", fmt.Sprint(i % 6)} }), division{"a", []string{"1|0", "2|4"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, divide(selection.Expectation{Series: test.series}))
		})
	}
	many := labelled(2*maxParts*partSeries, func(i int) []string { return []string{"a", fmt.Sprint(i % maxParts)} })
	most := divide(selection.Expectation{Series: many})
	require.Equal(t, "a", most.label)
	require.Len(t, most.values, maxParts-1)
	require.Empty(t, divide(selection.Expectation{Series: many, Ahead: true}))
}

// Whatever series there are, each is of one part.
func TestDivisionIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []string{"", "a", "b", "a|b", ".*", "ü\n", `\`, "(", "x{2}", "a.b", "aXb", " ", "A"}
	random := func(of int) []labels.Labels {
		return labelled(partSeries*(2+r.IntN(3)), func(int) []string {
			return []string{"job", values[r.IntN(of)], "z", values[r.IntN(of)]}
		})
	}
	divided := 0
	for range 60 {
		d := divide(selection.Expectation{Series: random(1 + r.IntN(len(values)))})
		if len(d.values) > 0 {
			divided++
		}
		given := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: "__name__", Value: "m"}}
		parts := d.matchers(given)
		require.Len(t, given, 1)
		for _, l := range append(random(len(values))[:300], labels.FromStrings("__name__", "m")) {
			of := 0
			for _, p := range parts {
				ms, err := remote.FromLabelMatchers(p)
				require.NoError(t, err)
				if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
					of++
				}
			}
			require.Equal(t, 1, of, "%s by %v", l, d)
		}
	}
	require.Greater(t, divided, 30)
}

// A fetch that is divided brings what one that is not does, new series too, as samples
// and as chunks.
func TestDividedFetch(t *testing.T) {
	const last = int64(1_700_000_000_000)
	store := teststorage.New(t)
	app := store.Appender(t.Context())
	all := labelled(3*partSeries, func(i int) []string {
		switch {
		case i%100 == 0:
			return nil
		case i%100 == 1:
			return []string{"instance", "new"}
		}
		return []string{"instance", fmt.Sprintf("host-%d:80", i%7)}
	})
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(all)) {
		for k := range int64(4) {
			_, err := app.Append(0, all[i], last-15_000*(3-k), 1+float64(i)/3)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	h := promHandler(store, 1<<20, 1<<20)
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { h.ServeHTTP(w, r) })
	c := newClient(t, readConfig(t, base), quick())
	whole, _, err := c.Fetch(t.Context(), last-minute, last, anything, selection.Fetch{})
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
	known := slices.DeleteFunc(slices.Clone(whole.Series()), func(l labels.Labels) bool { return l.Get("instance") == "new" })
	for _, samples := range []int{0, 4} {
		f := selection.Fetch{Expected: selection.Expectation{Series: known, Samples: samples}}
		for range 3 {
			var told selection.Progress
			f.Progress = &told
			requests.Store(0)
			got, _, err := c.Fetch(t.Context(), last-minute, last, anything, f)
			require.NoError(t, err)
			require.Equal(t, chunksOf(whole), chunksOf(got))
			require.EqualValues(t, 2, requests.Load())
			require.Equal(t, got.PayloadBytes(), told.Arrived())
		}
		requests.Store(0)
		f.Expected.Ahead = true
		got, _, err := c.Fetch(t.Context(), last-minute, last, anything, f)
		require.NoError(t, err)
		require.Equal(t, chunksOf(whole), chunksOf(got))
		require.EqualValues(t, 1, requests.Load(), "nobody waits for it")
	}
}

// When one part fails the fetch does, and what the others brought is gone.
func TestDividedFetchFails(t *testing.T) {
	var mu sync.Mutex
	var negative bool
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		req, err := remote.DecodeReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		ms := req.Queries[0].Matchers
		mu.Lock()
		fails := (ms[len(ms)-1].Type == prompb.LabelMatcher_NRE) == negative
		mu.Unlock()
		if fails {
			status(400, "not this part")(w, r, n)
			return
		}
		answerStream(frames(wireSeries(0, 3, "__name__", "a", "j", "0")))(w, r, n)
	})
	c := newClient(t, readConfig(t, base), quick())
	known := labelled(2*partSeries, func(i int) []string { return []string{"j", fmt.Sprint(i % 2)} })
	for range 2 {
		sel, _, err := c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{Expected: selection.Expectation{Series: known}})
		require.Nil(t, sel)
		require.ErrorContains(t, err, "not this part")
		mu.Lock()
		negative = true
		mu.Unlock()
	}
}
