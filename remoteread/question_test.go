package remoteread

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// asksSamples reports whether a request prefers samples to chunks.
func asksSamples(t testing.TB, r *http.Request) bool {
	req, err := remote.DecodeReadRequest(r)
	if err != nil {
		t.Error(err)
		return false
	}
	require.ElementsMatch(t, remote.AcceptedResponseTypes, req.AcceptedResponseTypes)
	return req.AcceptedResponseTypes[0] == prompb.ReadRequest_SAMPLES
}

func series(n int) (out []labels.Labels) {
	for i := range n {
		out = append(out, labels.FromStrings("__name__", "a", "i", fmt.Sprintf("%04d", i)))
	}
	return out
}

// Samples are asked for first where few are expected.
func TestPrefersSamples(t *testing.T) {
	for _, test := range []struct {
		name   string
		expect selection.Expectation
		limit  int64 // bytes of an answer; 0 for the default
		pieces int64
		want   bool
	}{
		{"nothing is expected", selection.Expectation{}, 0, 1, false},
		{"no series", selection.Expectation{Samples: 4}, 0, 1, false},
		{"not known how many", selection.Expectation{Series: series(5)}, 0, 1, false},
		{"few", selection.Expectation{Series: series(5), Samples: 1}, 0, 1, true},
		{"as many as may be", selection.Expectation{Series: series(5), Samples: samplesFirst}, 0, 1, true},
		{"too many", selection.Expectation{Series: series(5), Samples: samplesFirst + 1}, 0, 1, false},
		{"negative", selection.Expectation{Series: series(5), Samples: -1}, 0, 1, false},
		{"several pieces", selection.Expectation{Series: series(5), Samples: 4}, 0, 2, false},
		{"many series", selection.Expectation{Series: make([]labels.Labels, samplesFirstInAll/10), Samples: 10}, 0, 1, true},
		{"too many series", selection.Expectation{Series: make([]labels.Labels, samplesFirstInAll/10+1), Samples: 10}, 0, 1, false},
		{"near the limit of an answer", selection.Expectation{Series: series(10), Samples: 10}, 4000, 1, false},
		{"within the limit of an answer", selection.Expectation{Series: series(10), Samples: 10}, 8000, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Bool
			base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
				asked.Store(asksSamples(t, r))
				streamed(w, nil)
			})
			c := newClient(t, readConfig(t, base), Options{MaxFrameBytes: test.limit})
			_, _, err := c.Fetch(t.Context(), 0, test.pieces*c.piece-1, anything, selection.Fetch{Expected: test.expect})
			require.NoError(t, err)
			require.Equal(t, test.want, asked.Load())
			require.Equal(t, test.pieces, requests.Load())
			// Not where start timestamps count, which samples come without.
			c.PreferSamples(false)
			_, _, err = c.Fetch(t.Context(), 0, test.pieces*c.piece-1, anything, selection.Fetch{Expected: test.expect})
			require.NoError(t, err)
			require.False(t, asked.Load())
		})
	}
}

// Where samples are refused, or of no use, chunks are fetched; and from then on at once.
func TestSamplesAreOfNoUse(t *testing.T) {
	long := floats("a", 5)
	long.Labels = append(long.Labels, prompb.Label{Name: "z", Value: string(make([]byte, 20_000))})
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, int64)
		again  bool // whether chunks are asked for
	}{
		{"sample limit", status(400, "exceeded sample limit (10)"), true},
		{"too large a request", status(413, ""), true},
		{"unprocessable", status(422, ""), true},
		{"out of order", answerSamples(floats("a", 5, 4)), true},
		{"garbage", answerBytes("application/x-protobuf", []byte{1, 0, 1}), true},
		{"too large an answer", answerSamples(long), true},
		{"zeros", answerSamples(&prompb.TimeSeries{Samples: []prompb.Sample{{Timestamp: 1}}}), true},
		{"chunks all the same", answerStream(frames(wireSeries(0, 3, "__name__", "a"))), false},
		{"samples", answerSamples(floats("a", 0, 1000, 2000)), false},
		{"unauthorized", status(401, ""), false},
		{"forbidden", status(403, ""), false},
		{"not found", status(404, ""), false},
		{"gone", status(410, ""), false},
		{"redirect", status(304, ""), false},
		{"overloaded", status(503, ""), false},
		{"rate limit", status(429, ""), false},
		{"not remote read", answerBytes("text/html", nil), false},
		{"dropped", func(http.ResponseWriter, *http.Request, int64) { panic(http.ErrAbortHandler) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			var all []bool
			asked := func() []bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(all)
			}
			base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
				samples := asksSamples(t, r)
				mu.Lock()
				all = append(all, samples)
				mu.Unlock()
				if samples {
					test.answer(w, r, n)
					return
				}
				streamed(w, frames(wireSeries(0, 3, "__name__", "a")))
			})
			o := quick()
			o.Retries, o.MaxFrameBytes = -1, 10_000
			c := newClient(t, readConfig(t, base), o)
			few := selection.Fetch{Expected: selection.Expectation{Series: series(3), Samples: 4, NoSamples: new(atomic.Int64)}}
			sel, _, err := c.Fetch(t.Context(), 0, 3000, anything, few)
			if !test.again {
				require.Equal(t, []bool{true}, asked())
				_, _, _ = c.Fetch(t.Context(), 0, 3000, anything, few)
				require.Equal(t, []bool{true, true}, asked())
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 3, sel.NumSamples())
			require.Equal(t, []bool{true, false}, asked())
			_, _, err = c.Fetch(t.Context(), 1000, 4000, anything, few)
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, false}, asked())

			// Other selectors are asked for as before.
			other := few
			other.Expected.NoSamples = new(atomic.Int64)
			_, _, err = c.Fetch(t.Context(), 0, 3000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")}, other)
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, false, true, false}, asked())

			// Samples may be of use again later.
			few.Expected.NoSamples.Store(time.Now().UnixNano())
			_, _, err = c.Fetch(t.Context(), 0, 3000, anything, few)
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, false, true, false, true, false}, asked())
		})
	}
}

// An error of both is that of chunks, and is one.
func TestBothAreRefused(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		http.Error(w, fmt.Sprint("samples: ", asksSamples(t, r)), http.StatusBadRequest)
	})
	few := selection.Fetch{Expected: selection.Expectation{Series: series(3), Samples: 4}}
	_, _, err := newClient(t, readConfig(t, base), quick()).Fetch(t.Context(), 0, 1, anything, few)
	require.ErrorContains(t, err, "400 Bad Request: samples: false; the store refuses the request")
	require.EqualValues(t, 2, requests.Load())
}

// A Prometheus's head sends samples in the order in which series were first seen; what
// is fetched as samples is what is fetched as chunks.
func TestSamplesFirstFromPrometheus(t *testing.T) {
	store := teststorage.New(t)
	last := int64(1_700_000_000_000)
	app := store.Appender(t.Context())
	for i := range 50 {
		for k := range int64(4) {
			_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i*7%50)), last-15_000*(3-k), math.Sqrt(float64(i)+1)*float64(k+1))
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	h := promHandler(store, 1<<20, 1000)
	var samples atomic.Int64
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if asksSamples(t, r) {
			samples.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		h.ServeHTTP(w, r)
	})
	c := newClient(t, readConfig(t, base), quick())
	chunks, _, err := c.Fetch(t.Context(), last-minute, last, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Zero(t, samples.Load())
	few := selection.Fetch{Expected: selection.Expectation{Series: chunks.Series(), Samples: 4}}
	for range 3 {
		got, _, err := c.Fetch(t.Context(), last-minute, last, anything, few)
		require.NoError(t, err)
		require.Equal(t, chunksOf(chunks), chunksOf(got))
	}
	require.EqualValues(t, 3, samples.Load())
	require.EqualValues(t, 4, requests.Load())
}

// fetchTogether fetches for many selectors, and by Fetch for those that must not share requests.
func fetchTogether(c *Client, mint, maxt int64, asks []selection.Ask, came func(i int, sel *selection.Selection, err error)) (shared int64) {
	var alone sync.WaitGroup
	var n atomic.Int64
	c.FetchTogether(mint, maxt, asks, func(i int, sel *selection.Selection) {
		if sel != nil {
			n.Add(1)
			came(i, sel, nil)
			return
		}
		alone.Go(func() {
			sel, _, err := c.Fetch(asks[i].Ctx, mint, maxt, asks[i].Matchers, asks[i].Fetch)
			came(i, sel, err)
		})
	})
	alone.Wait()
	return n.Load()
}

// TestTogether: what many selectors match comes in few requests, and each gets its own, whatever
// labels the store adds, whether samples or chunks are asked for, and when some are given up.
func TestTogether(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	const at = 60 // fetches at a time
	for range 2 {
		s := newLabelledStore(t, []int{200, 1 << 20}[r.IntN(2)], externalSets[0])
		maxt := s.fillAtRandom(t, r)
		mint := maxt - 29*15_000
		c := newClient(t, readConfig(t, s.url), Options{External: s, Concurrency: 2})
		var stats selection.Stats
		var shared int64
		for round := range 4 {
			ext := externalSets[r.IntN(len(externalSets))]
			s.external.Store(&ext)
			s.known.Store(nil)
			asks, givesUp, wants := make([]selection.Ask, at), make([]bool, at), make([]any, at)
			for i := range asks {
				asks[i].Matchers, givesUp[i] = randomMatchers(r), r.IntN(8) == 0
				want := query(t, s, mint, maxt, asks[i].Matchers...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if givesUp[i] {
					time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, cancel)
				}
				if r.IntN(2) == 0 {
					var known []labels.Labels
					for l := range want {
						known = append(known, labels.FromStrings("known", l))
					}
					asks[i].Expected = selection.Expectation{Series: known, Samples: 5, Signed: func(int) bool { return false }}
				}
				wants[i], asks[i].Ctx, asks[i].Stats = want, ctx, &stats
			}
			shared += fetchTogether(c, mint, maxt, asks, func(i int, sel *selection.Selection, err error) {
				if givesUp[i] && errors.Is(err, context.Canceled) {
					return
				}
				if !assertNoError(t, err, "seed %d, round %d, fetch %d, external labels %s, matchers %s", seed, round, i, ext, asks[i].Matchers) {
					return
				}
				if got := samplesOf(t, sel, mint, maxt); !reflect.DeepEqual(got, wants[i]) {
					t.Errorf("seed %d, round %d, fetch %d, external labels %s, matchers %s: %d series, or others than wanted", seed, round, i, ext, asks[i].Matchers, len(got))
				}
			})
			waitIdle(t, c)
		}
		all, more := stats.Exchanges()
		rides := int64(len(all) + more)
		t.Logf("%d questions in %d requests; %d of %d selectors shared theirs", rides, s.requests.Load(), shared, 4*at)
		require.Less(t, s.requests.Load(), rides*9/10, "seed %d: requests", seed)
		require.Positive(t, shared, "seed %d", seed)
	}
}

func assertNoError(t *testing.T, err error, format string, args ...any) bool {
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
	return err == nil
}

// waitIdle waits until the client has no request under way.
func waitIdle(t *testing.T, c *Client) {
	require.Eventually(t, c.lanes.free, 10*time.Second, time.Millisecond)
}

// TestTogetherGivenUp: a selector that no query waits for is told at once, though others share its
// request and the store is slow.
func TestTogetherGivenUp(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) {
		close(asked)
		<-answer
		streamed(w, frames())
	})
	c := newClient(t, readConfig(t, base), Options{Concurrency: 1})
	ctx, cancel := context.WithCancel(t.Context())
	asks := make([]selection.Ask, 4)
	for i := range asks {
		asks[i] = selection.Ask{Ctx: t.Context(), Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "a", fmt.Sprint(i))}}
	}
	asks[2].Ctx = ctx
	told := make(chan int, len(asks))
	var all sync.WaitGroup
	all.Go(func() { c.FetchTogether(0, 1000, asks, func(i int, _ *selection.Selection) { told <- i }) })
	<-asked
	cancel()
	require.Equal(t, 2, <-told)
	require.Empty(t, told)
	close(answer)
	all.Wait()
	require.Len(t, told, 3)
	waitIdle(t, c)
}

// TestTogetherFails: a question that a store refuses, or answers wrongly, fails alone.
func TestTogetherFails(t *testing.T) {
	for name, wrong := range map[string]func(http.ResponseWriter){
		"refused":   func(w http.ResponseWriter) { http.Error(w, "too much", http.StatusBadRequest) },
		"malformed": func(w http.ResponseWriter) { streamed(w, rawFrame([]byte{0x0a, 0x7f}, true)) },
		"cut off":   func(w http.ResponseWriter) { streamed(w, frames(wireSeries(0, 5, "a", "b"))[:9]) },
	} {
		t.Run(name, func(t *testing.T) {
			base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
				req, err := remote.DecodeReadRequest(r)
				if err != nil {
					t.Error(err)
					return
				}
				var out []byte
				for i, q := range req.Queries {
					value := q.Matchers[0].Value
					if value == "bad" {
						wrong(w)
						return
					}
					frame := &prompb.ChunkedReadResponse{QueryIndex: int64(i), ChunkedSeries: []*prompb.ChunkedSeries{wireSeries(0, 5, "name", value)}}
					out = append(out, rawFrame(marshal(frame), true)...)
				}
				streamed(w, out)
			})
			o := quick()
			o.Concurrency = 2
			c := newClient(t, readConfig(t, base), o)
			asks := make([]selection.Ask, 40)
			for i := range asks {
				value := fmt.Sprintf("v%d", i)
				if i == 30 {
					value = "bad"
				}
				asks[i] = selection.Ask{Ctx: t.Context(), Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "name", value)}}
			}
			var right, failed atomic.Int64
			shared := fetchTogether(c, 0, 30*60_000, asks, func(i int, sel *selection.Selection, err error) {
				value := asks[i].Matchers[0].Value
				switch {
				case value == "bad" && err != nil:
					failed.Add(1)
				case err != nil:
					t.Error(value, err)
				case sel.NumSeries() == 1 && sel.Labels(0).Get("name") == value:
					right.Add(1)
				default:
					t.Error(value, sel.Series())
				}
			})
			require.EqualValues(t, 39, right.Load())
			require.EqualValues(t, 1, failed.Load())
			require.GreaterOrEqual(t, shared, int64(20))
			t.Log(shared, "shared requests, of which there were", requests.Load())
			waitIdle(t, c)
		})
	}
}

// TestFewFetchAlone: few selectors have requests of their own, on all of the store's cores.
func TestFewFetchAlone(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, nil) })
	c := newClient(t, readConfig(t, base), quick())
	asks := make([]selection.Ask, (fewestTogether-1)*c.concurrency)
	for i := range asks {
		asks[i] = selection.Ask{Ctx: t.Context(), Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "name", fmt.Sprint(i))}}
	}
	require.Zero(t, fetchTogether(c, 0, 30*60_000, asks, func(_ int, _ *selection.Selection, err error) { assertNoError(t, err, "alone") }))
	require.EqualValues(t, len(asks), requests.Load())
}

// TestManyHaveLongPieces: requests for many selectors have fewer pieces than those for few.
func TestManyHaveLongPieces(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, nil) })
	o := quick()
	o.Concurrency, o.Piece = 2, time.Hour
	c := newClient(t, readConfig(t, base), o)
	for selectors, want := range map[int]int64{fewestTogether * 2: 9 * 2, manyTogether * 2: 3 * 2} {
		requests.Store(0)
		asks := make([]selection.Ask, selectors)
		for i := range asks {
			asks[i] = selection.Ask{Ctx: t.Context(), Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "name", fmt.Sprint(i))}}
		}
		shared := fetchTogether(c, 0, 9*hour-1, asks, func(_ int, _ *selection.Selection, err error) { assertNoError(t, err, "together") })
		require.EqualValues(t, selectors, shared)
		require.EqualValues(t, want, requests.Load(), selectors)
	}
}
