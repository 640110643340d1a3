package remoteread

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

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
			sel, _, err := c.Fetch(asks[i].Ctx, mint, maxt, asks[i].Matchers)
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
		var rides atomic.Int64
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
					ctx = selection.Expect(ctx, selection.Expectation{Series: known, Samples: 5, Signed: func(int) bool { return false }})
				}
				wants[i], asks[i].Ctx = want, selection.OnRequest(ctx, func(selection.Request) { rides.Add(1) })
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
		t.Logf("%d questions in %d requests; %d of %d selectors shared theirs", rides.Load(), s.requests.Load(), shared, 4*at)
		require.Less(t, s.requests.Load(), rides.Load()*9/10, "seed %d: requests", seed)
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
