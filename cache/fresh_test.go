package cache

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// clocked is a cache whose clock a test moves.
func clocked(t *testing.T, up Upstream, o Options) (c *Cache, clock *int64) {
	t.Helper()
	clock = new(int64)
	*clock = now
	o.HostBytes, o.Tile, o.Now = DefaultHostBytes, testTile, func() time.Time { return time.UnixMilli(*clock) }
	return New(up, o), clock
}

func sorted(rs []request) []request {
	slices.SortFunc(rs, func(a, b request) int { return int(a.mint - b.mint) })
	return rs
}

func TestDrop(t *testing.T) {
	ms := func(s string) []*labels.Matcher {
		m, err := parser.NewParser(parser.Options{}).ParseMetricSelector(s)
		require.NoError(t, err)
		return m
	}
	for _, test := range []struct {
		name       string
		mint, maxt int64
		selectors  [][]*labels.Matcher
		want       Dropped
		asked      []request // by a query for everything of m, after that
	}{
		{"all", math.MinInt64, math.MaxInt64, nil, Dropped{2, 10}, []request{{80 * hour, 90*hour - 1}}},
		{"selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`{job="x",__name__="m"}`)}, Dropped{1, 5}, []request{{80 * hour, 90*hour - 1}}},
		{"other selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`other`), ms(`third`)}, Dropped{1, 5}, nil},
		{"no selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`third`)}, Dropped{}, nil},
		{"middle", 83 * hour, 84 * hour, nil, Dropped{2, 4}, []request{{82 * hour, 86*hour - 1}}},
		{"edge", 81 * hour, 82*hour - 1, [][]*labels.Matcher{ms(`m`)}, Dropped{1, 1}, []request{{80 * hour, 82*hour - 1}}},
		{"elsewhere", 10 * hour, 20 * hour, nil, Dropped{}, nil},
		{"nothing", 20 * hour, 10 * hour, nil, Dropped{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			series := 2
			up := &fake{}
			up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
				return minutely(t, series, mint, maxt), nil, nil
			}
			c, _ := clocked(t, up, Options{})
			query(t, c, 80*hour, 90*hour-1, "m")
			query(t, c, 80*hour, 90*hour-1, "other")
			up.asked()
			got, err := c.Drop(test.mint, test.maxt, test.selectors...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.want.Tiles, c.totals().Dropped)
			require.Equal(t, 10-test.want.Tiles, c.Stats().Tiles)

			// The second series is gone upstream, and here where it was dropped.
			series = 1
			answer := query(t, c, 80*hour, 90*hour-1, "m")
			require.Equal(t, test.asked, up.asked())
			gone := 0
			for _, r := range test.asked {
				gone += int((r.maxt + 1 - r.mint) / 60_000)
			}
			require.Len(t, answer[`{__name__="m", i="000001"}`], 600-gone)
			require.Len(t, answer[`{__name__="m", i="000000"}`], 600)
		})
	}
}

// What is being fetched when it is dropped is neither kept nor shared.
func TestDropDuringAFetch(t *testing.T) {
	calls, gates := make(chan int, 2), []chan struct{}{make(chan struct{}), make(chan struct{})}
	calls <- 0
	calls <- 1
	entered := make(chan struct{}, 2)
	up := &fake{}
	up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		call := <-calls
		entered <- struct{}{}
		<-gates[call]
		return minutely(t, 2-call, mint, maxt), nil, nil // the second series is deleted meanwhile
	}
	c, _ := clocked(t, up, Options{})
	var done [2]chan error
	for call := range done {
		done[call] = make(chan error, 1)
		go func() {
			_, _, err := c.get(t.Context(), 80*hour, now, named("m"))
			done[call] <- err
		}()
		<-entered
		if call == 0 {
			_, err := c.Drop(85*hour, 86*hour)
			require.NoError(t, err)
		}
	}
	require.Zero(t, c.totals().Shared)
	for _, call := range []int{1, 0} {
		close(gates[call])
		require.NoError(t, <-done[call])
	}
	up.asked()
	requireMinutely(t, query(t, c, 80*hour, horizon-1, "m"), 1, 80*hour, horizon-1)
	require.Empty(t, up.asked(), "the second fetch was kept")
}

const minute = hour / 60 // ms

// A fetch of the newest samples goes on until now, for queries that end elsewhere. They
// share it if they end before it began.
func TestUntilNow(t *testing.T) {
	up := newGate(newMinutely(t, 3))
	var clock atomic.Int64
	begin := 100*hour + 35*minute + 30_000
	clock.Store(begin)
	c := New(up, Options{
		HostBytes: DefaultHostBytes, Tile: 30 * time.Minute, Recheck: 5 * time.Minute,
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	var all sync.WaitGroup
	ask := func(end, shared int64) {
		all.Go(func() {
			sel, _, err := c.get(t.Context(), 99*hour, end, named("m"))
			if err != nil {
				t.Error(err)
				return
			}
			got, _ := read(t, sel.SeriesSet(99*hour, end, nil))
			requireMinutely(t, got, 3, 99*hour, end)
		})
		require.Eventually(t, func() bool { return c.totals().Shared == shared && c.metrics.misses.value()+c.totals().Shared > 0 }, 10*time.Second, time.Millisecond)
	}
	ask(begin-2*minute, 0)
	<-up.entered
	ask(begin-minute, 1)
	ask(begin-1, 2)
	clock.Add(minute)
	ask(begin-3*minute, 3)
	require.Equal(t, []request{{99 * hour, begin}}, up.asked())
	ask(begin, 4) // the tiles alone: until this very moment there may be more by now
	select {
	case <-up.entered:
	case <-time.After(10 * time.Second):
		t.Error("it shared a fetch that began before")
	}
	require.Equal(t, []request{{100 * hour, begin + minute}}, up.asked())
	close(up.open)
	all.Wait()
}

// histograms is a selection of one series of them.
func histograms(t *testing.T) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	require.NoError(t, b.Chunk(chunkenc.EncHistogram, 4000, 4000, selectiontest.Encode(t, chunkenc.EncHistogram, []int64{4000}, selectiontest.Rising)))
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// A fetch is told what to expect where that is certain to be samples alone.
func TestExpected(t *testing.T) {
	var got selection.Expectation
	answer := func(mint, maxt int64) *selection.Selection { return minutely(t, 20, mint, maxt) }
	up := &fake{fetch: func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		got = selection.Expected(ctx)
		return answer(mint, maxt), nil, nil
	}}
	c := New(up, Options{HostBytes: DefaultHostBytes, Recheck: 5 * time.Minute, Now: at(now)})
	query(t, c, now-hour, now, "m")
	require.Empty(t, got.Series)
	require.Zero(t, got.Samples)
	query(t, c, now-hour, now, "m")
	require.Len(t, got.Series, 20)
	require.Equal(t, 2, got.Samples, "of a minute, one each minute")
	query(t, c, now-hour, now+hour, "m")
	require.Equal(t, 2, got.Samples, "there is nothing after now")

	require.False(t, got.Signed(0), "times are not negative")

	answer = func(int64, int64) *selection.Selection { return histograms(t) }
	query(t, c, 1000, now, "h")
	query(t, c, 1000, now, "h")
	require.Len(t, got.Series, 1)
	require.Zero(t, got.Samples)
}

// TestScripts runs the histories in testdata/scripts: looks at a cache over an upstream of three
// series with a sample a minute, and what the upstream is asked for. A line is one of
//
//	cache tile=30m …   begins with a cache; also fresh, recheck, outoforder, maxage, retention, bytes
//	at 100:35:30               the time: hours, minutes, seconds since the epoch
//	look 96:00..now            a query, both ends included, whose answer must be right
//	ask 96:00..now             a query whose answer may lack samples
//	fail 96:00..now            a query that the upstream fails
//	samples 1 120              how many samples of that number series 1 had in the last answer
//	upstream 2 failing         it has so many series from now on, 3 at first; or warning
//	drop 83:00..84:00          has the cache drop what it has
//	expect none                what was asked for since the last such line:
//	expect 96:00..99:59:59.999 99:00..100:00
//	tiles 7                    how many are kept
//	covers 99:00..100:00       what is kept, ends not included
//	until 101:00               before when it is kept as whole tiles
//	# a remark
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := script{t: t, up: &fake{}}
			for n, line := range strings.Split(string(text), "\n") {
				if word, rest, _ := strings.Cut(line, " "); word != "" && word != "#" {
					s.line = fmt.Sprintf("%s:%d: %s", file, n+1, line)
					s.run(word, strings.Fields(rest))
				}
			}
		})
	}
}

// script is one history while it runs.
type script struct {
	t    *testing.T
	line string // in messages
	up   *fake
	c    *Cache
	now  int64 // ms

	series int                 // of the upstream
	answer map[string][]sample // the last one
}

func (s *script) run(word string, args []string) {
	switch word {
	case "cache":
		o := Options{HostBytes: DefaultHostBytes, Now: func() time.Time { return time.UnixMilli(s.now) }}
		for _, arg := range args {
			name, value, _ := strings.Cut(arg, "=")
			if name == "bytes" {
				o.HostBytes = 0
				continue
			}
			d, err := time.ParseDuration(value)
			require.NoError(s.t, err, s.line)
			*map[string]*time.Duration{
				"tile": &o.Tile, "fresh": &o.Fresh, "recheck": &o.Recheck,
				"outoforder": &o.OutOfOrder, "maxage": &o.MaxAge, "retention": &o.Retention,
			}[name] = d
		}
		s.c = New(s.up, o)
		s.up.asked()
		s.run("upstream", []string{"3"})
	case "at":
		s.now = s.time(args[0])
	case "look":
		mint, maxt := s.span(args[0])
		require.NoError(s.t, s.ask(mint, maxt), s.line)
		requireMinutely(s.t, s.answer, s.series, mint, maxt)
	case "ask":
		require.NoError(s.t, s.ask(s.span(args[0])), s.line)
	case "fail":
		require.ErrorIs(s.t, s.ask(s.span(args[0])), errUpstream, s.line)
	case "samples":
		require.Equal(s.t, args[1], fmt.Sprint(len(s.answer[fmt.Sprintf(`{__name__="m", i="00000%s"}`, args[0])])), s.line)
	case "drop":
		_, err := s.c.Drop(s.span(args[0]))
		require.NoError(s.t, err, s.line)
	case "upstream":
		var err error
		s.series, err = strconv.Atoi(args[0])
		require.NoError(s.t, err, s.line)
		how := strings.Join(args[1:], " ")
		s.up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
			switch how {
			case "failing":
				return nil, nil, errUpstream
			case "warning":
				return minutely(s.t, s.series, mint, maxt), annotations.New().Add(errUpstream), nil
			}
			return minutely(s.t, s.series, mint, maxt), nil, nil
		}
	case "expect":
		got := []string{}
		for _, r := range sorted(s.up.asked()) {
			got = append(got, clockOf(r.mint)+".."+clockOf(r.maxt))
		}
		if len(got) == 0 {
			got = []string{"none"}
		}
		require.Equal(s.t, args, got, s.line)
	case "tiles":
		require.Equal(s.t, args[0], fmt.Sprint(s.c.Stats().Tiles), s.line)
	case "covers":
		var got []string
		for _, one := range s.entry().covered.All() {
			got = append(got, clockOf(one.From)+".."+clockOf(one.To))
		}
		require.Equal(s.t, args, got, s.line)
	case "until":
		require.Equal(s.t, args[0], clockOf(s.entry().sel.KeptUntil()), s.line)
	default:
		s.t.Fatalf("%s: there is no such command", s.line)
	}
}

// ask asks for what there is in a span, and waits until what was fetched is kept.
func (s *script) ask(mint, maxt int64) error {
	q, err := s.c.Querier(mint, maxt)
	require.NoError(s.t, err)
	defer q.Close()
	s.answer, _, err = drain(q.Select(s.t.Context(), true, nil, named("m")...))
	landed(s.t, s.c)
	return err
}

// span reads two times with dots between them.
func (s *script) span(text string) (mint, maxt int64) {
	from, to, _ := strings.Cut(text, "..")
	return s.time(from), s.time(to)
}

// entry is what is kept of the one selector.
func (s *script) entry() *entry {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.entries[matching.Key(named("m"))]
}

// time reads hours, minutes and seconds, or "now", in ms.
func (s *script) time(text string) (ms int64) {
	if text == "now" {
		return s.now
	}
	unit := float64(hour)
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.ParseFloat(part, 64)
		require.NoError(s.t, err, s.line)
		ms += int64(n*unit + 0.5)
		unit /= 60
	}
	return ms
}

// clockOf writes ms as scripts do.
func clockOf(ms int64) string {
	text := fmt.Sprintf("%d:%02d:%06.3f", ms/hour, ms/minute%60, float64(ms%minute)/1000)
	return strings.TrimSuffix(strings.TrimSuffix(text, ".000"), ":00")
}
