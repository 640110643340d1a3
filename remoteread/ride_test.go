package remoteread

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
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

// TestTogether: what many selectors match comes in few requests, and each gets its own, whatever
// labels the store adds, whether samples or chunks are asked for, and whoever gives up meanwhile.
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
		s.around = func() { time.Sleep(time.Millisecond) } // others come to wait
		var rides atomic.Int64
		for round := range 4 {
			ext := externalSets[r.IntN(len(externalSets))]
			s.external.Store(&ext)
			s.known.Store(nil)
			var wg sync.WaitGroup
			for i := range at {
				ms, expects, givesUp := randomMatchers(r), r.IntN(2) == 0, r.IntN(8) == 0
				pause := time.Duration(r.IntN(2000)) * time.Microsecond
				want := query(t, s, mint, maxt, ms...)
				wg.Go(func() {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if givesUp {
						time.AfterFunc(pause, cancel)
					}
					if expects {
						var known []labels.Labels
						for l := range want {
							known = append(known, labels.FromStrings("known", l))
						}
						ctx = selection.Expect(ctx, selection.Expectation{Series: known, Samples: 5, Signed: func(int) bool { return false }})
					}
					ctx = selection.OnRequest(ctx, func(selection.Request) { rides.Add(1) })
					sel, _, err := c.Fetch(ctx, mint, maxt, ms)
					if givesUp && errors.Is(err, context.Canceled) {
						return
					}
					if !assertNoError(t, err, "seed %d, round %d, fetch %d, external labels %s, matchers %s", seed, round, i, ext, ms) {
						return
					}
					if got := samplesOf(t, sel, mint, maxt); !reflect.DeepEqual(got, want) {
						t.Errorf("seed %d, round %d, fetch %d, external labels %s, matchers %s: %d series, not %d, or others", seed, round, i, ext, ms, len(got), len(want))
					}
				})
			}
			wg.Wait()
			waitIdle(t, c)
		}
		t.Logf("%d questions in %d requests", rides.Load(), s.requests.Load())
		require.Less(t, s.requests.Load(), rides.Load()*2/3, "seed %d: requests", seed)
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
	require.Eventually(t, func() bool {
		c.lanes.mu.Lock()
		defer c.lanes.mu.Unlock()
		return c.lanes.free == newLanes(c.concurrency).free && len(c.lanes.small)+len(c.lanes.large) == 0
	}, 10*time.Second, time.Millisecond)
}

// TestTogetherFails: a question that a store refuses, or answers wrongly, fails alone.
func TestTogetherFails(t *testing.T) {
	for name, wrong := range map[string]func(http.ResponseWriter){
		"refused":   func(w http.ResponseWriter) { http.Error(w, "too much", http.StatusBadRequest) },
		"malformed": func(w http.ResponseWriter) { streamed(w, rawFrame([]byte{0x0a, 0x7f}, true)) },
		"cut off":   func(w http.ResponseWriter) { streamed(w, frames(wireSeries(0, 5, "a", "b"))[:9]) },
	} {
		t.Run(name, func(t *testing.T) {
			var hold sync.WaitGroup
			hold.Add(1)
			base, requests := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
				if n == 1 {
					hold.Wait() // until all others wait for the only lane
				}
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
			o.Concurrency = 1
			c := newClient(t, readConfig(t, base), o)
			var wg sync.WaitGroup
			var right, failed atomic.Int64
			for i := range 40 {
				wg.Go(func() {
					value := fmt.Sprintf("v%d", i)
					if i == 20 {
						value = "bad"
					}
					sel, _, err := c.Fetch(context.Background(), 0, 30*60_000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "name", value)})
					switch {
					case value == "bad" && err != nil && !strings.Contains(err.Error(), errTogether.Error()):
						failed.Add(1)
					case err != nil:
						t.Error(value, err)
					case sel.NumSeries() == 1 && sel.Labels(0).Get("name") == value:
						right.Add(1)
					default:
						t.Error(value, sel.Series())
					}
				})
			}
			require.Eventually(t, func() bool {
				c.lanes.mu.Lock()
				defer c.lanes.mu.Unlock()
				return len(c.lanes.large) == 39-c.lanes.free[shared]
			}, 10*time.Second, time.Millisecond)
			hold.Done()
			wg.Wait()
			require.EqualValues(t, 39, right.Load())
			require.EqualValues(t, 1, failed.Load())
			t.Log(requests.Load(), "requests")
			waitIdle(t, c)
		})
	}
}
