package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
)

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
