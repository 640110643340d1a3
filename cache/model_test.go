package cache

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

)

// model drives a TSDB that is written to as time goes by.
type model struct {
	t     *testing.T
	r     *rand.Rand
	db    *teststorage.TestStorage
	now   int64   // ms
	fresh int64   // ms
	late  bool    // whether samples come out of order within fresh
	last  []int64 // by series, time of its last sample
	order bool    // whether there are no histograms, and some series are behind, all their samples as late
}

const modelStart = 1000 * hour

func (m *model) labels(i int) labels.Labels {
	ls := []string{"__name__", fmt.Sprintf("m%d", i%3), "i", fmt.Sprint(i), "parity", fmt.Sprint(i % 2)}
	if i%2 == 1 {
		ls = append(ls, "odd", "yes")
	}
	return labels.FromStrings(ls...)
}

// live reports whether series i is written to at ts: some begin late, some
// end early, some pause.
func (m *model) live(i int, ts int64) bool {
	h := (ts - modelStart) / (hour / 4)
	switch i % 5 {
	case 1:
		return h > int64(i)
	case 2:
		return h < int64(3*i)
	case 3:
		return h/7%2 == 0
	}
	return true
}

// behind is how late the samples of series i arrive, in ms.
func (m *model) behind(i int) int64 {
	if !m.order || i%5 == 1 || i%5 == 2 || i%5 == 3 {
		return 0 // those begin and end
	}
	return int64(i%7) * 90_000
}

// advance lets d ms pass, with what is scraped meanwhile.
func (m *model) advance(d int64) {
	app := m.db.Appender(m.t.Context())
	for i := range m.last {
		end := m.now + d - m.behind(i)
		for ts := m.last[i] + 15_000 + m.r.Int64N(20); ts <= end; ts += 15_000 + m.r.Int64N(20) {
			m.last[i] = ts
			if !m.live(i, ts) {
				continue
			}
			// Late ones are written at random below.
			if m.late && m.r.IntN(4) == 0 {
				continue
			}
			m.write(app, i, ts)
		}
	}
	require.NoError(m.t, app.Commit())
	m.now += d
	if !m.late {
		return
	}
	app = m.db.Appender(m.t.Context())
	for i := range m.last {
		if i%4 != 3 {
			for range 3 {
				if ts := m.now - m.r.Int64N(m.fresh); m.live(i, ts) {
					m.write(app, i, ts)
				}
			}
		}
	}
	require.NoError(m.t, app.Commit())
}

func (m *model) write(app storage.Appender, i int, ts int64) {
	var err error
	switch {
	case i%4 == 3 && !m.order:
		_, err = app.AppendHistogram(0, m.labels(i), ts, tsdbutil.GenerateTestHistogram(int64(ts-modelStart)/15_000), nil)
	case m.r.IntN(30) == 0 && m.behind(i) == 0: // else it would begin again, and late
		_, err = app.Append(0, m.labels(i), ts, math.Float64frombits(value.StaleNaN))
	default:
		_, err = app.Append(0, m.labels(i), ts, float64(m.r.IntN(100)))
	}
	if m.late && err != nil {
		return // older than the window, or a duplicate
	}
	require.NoError(m.t, err)
}

func (m *model) direct(mint, maxt int64, matchers []*labels.Matcher) (map[string][]sample, []string) {
	q, err := m.db.Querier(mint, maxt)
	require.NoError(m.t, err)
	defer q.Close()
	return read(m.t, q.Select(m.t.Context(), true, nil, matchers...))
}

func (m *model) selector() []*labels.Matcher {
	pool := [][]*labels.Matcher{
		named("m0"), named("m1"), named("nothing"),
		{labels.MustNewMatcher(labels.MatchRegexp, "__name__", "m.*")},
		{labels.MustNewMatcher(labels.MatchEqual, "parity", "1"), labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "m2")},
	}
	return pool[m.r.IntN(len(pool))]
}

// TestConcurrently runs random queries from many goroutines, some of them cancelled, through a cache
// that evicts, and that is cleared or made to shrink meanwhile: answers are right, and its accounts
// come to what it holds.
func TestConcurrently(t *testing.T) {
	for name, disturb := range map[string]func(c *Cache){
		"cleared":   (*Cache).Clear,
		"reclaimed": func(c *Cache) { c.Reclaim(50_000) },
	} {
		t.Run(name, func(t *testing.T) {
			c := New(newMinutely(t, 5), Options{HostBytes: 300_000, Tile: testTile, Now: at(now)})
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(3, uint64(g)))
					for range 100 {
						mint := 80*hour + r.Int64N(20*hour)
						maxt := min(now, mint+r.Int64N(10*hour))
						ctx, cancel := context.WithCancel(t.Context())
						if r.IntN(4) == 0 {
							time.AfterFunc(time.Duration(r.IntN(1000))*time.Microsecond, cancel)
						}
						q, err := c.Querier(mint, maxt)
						if err != nil {
							t.Error(err)
						}
						got, order, err := drain(q.Select(ctx, true, nil, named(fmt.Sprintf("m%d", r.IntN(6)))...))
						if err != nil && ctx.Err() == nil || !slices.IsSorted(order) {
							t.Errorf("%v, series in order %v", err, order)
						}
						for _, ss := range got {
							if want := int(maxt/60_000 - (mint+59_999)/60_000 + 1); len(ss) != want {
								t.Errorf("%d samples, want %d", len(ss), want)
							}
						}
						_ = q.Close()
						cancel()
						if r.IntN(20) == 0 {
							disturb(c)
						}
						if s := c.Stats(); s.Bytes > s.Limit || s.Bytes < 0 {
							t.Errorf("%+v", s)
						}
					}
				})
			}
			wg.Wait()
			c.Clear()
			require.Empty(t, c.entries)
			require.Zero(t, c.Stats().Bytes)
		})
	}
}
