package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
)

// TestStories runs the stories in testdata/stories: looks at a cache over an upstream that has three
// series m with a sample a minute, and what each look needs and costs. Times are hours, minutes and
// seconds since the epoch, or now; a span has both ends. A selector may stand before a span: it is m
// where there is none. A line is one of
//
//	cache tile=30m …           begins with a cache; also fresh, recheck, outoforder, maxage, retention,
//	                           bytes=100000, and disk for one in a directory of its own
//	restart                    closes it, and begins with another one over the same directory
//	at 100:35:30               the time
//	look m{i="1"} 96:00..now   a query whose answer must be right
//	ask 96:00..now             a query whose answer may lack samples
//	fail 96:00..now            a query that the upstream fails
//	begin A 96:00..now         a query called A that waits for a held upstream
//	end A                      which now has its answer, and a right one
//	fails A                    which the upstream has failed
//	leave A                    whose client leaves
//	needs 96:00..now kept 96:00..100:00 upstream 100:00..100:35:30
//	                           where the stretches of a query would come from: kept, disk, wider, upstream,
//	                           or flight for what is under way; ends not included
//	samples 1 120              how many samples of that number series 1 had in the last answer
//	upstream 2                 it has that number of series from now on. Behind that: failing; failing=80:00, which is
//	                           that fetches that have that time fail; warning; changed, which is that it has other
//	                           values; late=2m, which is that samples come so late
//	hold, release              has its answers wait from now on, or no longer
//	drop 83:00..84:00          has the cache drop what it has
//	clear                      all of it
//	ahead                      has it fetch ahead what is due
//	expect none                what was asked for since the last such line:
//	expect 96:00..99:59:59.999 99:00..100:00
//	tiles 7                    how many are kept
//	covers 99:00..100:00       what is kept of m, ends not included
//	until 101:00               before when it is kept as whole tiles
//	waiting 2                  requests that the upstream has not answered
//	corrected 2                series that a fetch has brought other samples of than were kept
//	# a remark
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 30)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				s := story{t: t, up: &telling{t: t}, begun: map[string]*begun{}}
				t.Cleanup(func() { s.close() })
				for n, line := range strings.Split(string(text), "\n") {
					if word, rest, _ := strings.Cut(line, " "); word != "" && word != "#" {
						s.line = fmt.Sprintf("%s:%d: %s", file, n+1, line)
						s.run(word, strings.Fields(rest))
					}
				}
				require.Empty(t, s.begun, "queries without an end")
			})
		})
	}
}

// telling is the upstream of a story.
type telling struct {
	t       testing.TB
	series  int
	failing func(mint, maxt int64) bool
	warning bool
	value   float64 // of a sample, beside its time
	until   func() int64

	mu     sync.Mutex
	inside int // requests that have no answer yet
	asked  []asked
	held   chan struct{} // closed when answers need not wait; nil if they need not
}

// Answers implements Answerer.
func (u *telling) Answers([]*labels.Matcher) bool { return true }

// asked is a request to the upstream: its beginning, and what a story calls it.
type asked struct {
	mint int64
	text string
}

// of are the labels of the series that matchers match.
func (u *telling) of(ms []*labels.Matcher) (all []labels.Labels) {
	for i := range u.series {
		l := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
			all = append(all, l)
		}
	}
	return all
}

func (u *telling) Fetch(ctx context.Context, mint, maxt int64, ms []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	text := clockOf(mint) + ".." + clockOf(maxt)
	if name := matching.Text(ms); name != "m" {
		text = name + " " + text
	}
	u.mu.Lock()
	u.asked = append(u.asked, asked{mint, text})
	u.inside++
	held := u.held
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		u.inside--
		u.mu.Unlock()
	}()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if u.failing(mint, maxt) {
		return nil, nil, errUpstream
	}
	var ws annotations.Annotations
	if u.warning {
		ws = annotations.New().Add(errUpstream)
	}
	b := selection.NewBuilder(0)
	for _, l := range u.of(ms) {
		b.Series(l)
		minuteChunks(u.t, b, mint, min(maxt, u.until()), u.value)
	}
	sel, err := b.Finish()
	return sel, ws, err
}

// minuteChunks appends a sample a minute whose value is its time and more, in chunks of an hour.
func minuteChunks(t testing.TB, b *selection.Builder, mint, maxt int64, more float64) {
	for at := (mint + minute - 1) / minute * minute; at <= maxt; {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(t, err)
		first, end := at, min(at/hour*hour+hour-1, maxt)
		for ; at <= end; at += minute {
			app.Append(0, at, float64(at)+more)
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, first, at-minute, c.Bytes()))
	}
}

// begun is a query in the background.
type begun struct {
	cancel context.CancelFunc
	done   chan struct{}
	answer map[string][]sample
	err    error
	series int
	mint   int64
	maxt   int64
}

// story is one while it is told.
type story struct {
	t    *testing.T
	line string // in messages
	up   *telling
	o    Options
	dir  string
	c    *Cache
	now  int64 // ms

	answer map[string][]sample // the last one
	begun  map[string]*begun
}

func (s *story) run(word string, args []string) {
	switch word {
	case "cache":
		s.close()
		s.o, s.dir = Options{HostBytes: DefaultHostBytes}, ""
		for _, arg := range args {
			s.option(arg)
		}
		s.run("upstream", []string{"3"})
		s.open()
	case "restart":
		s.close()
		s.open()
	case "at":
		s.now = s.time(args[0])
	case "look", "ask", "fail", "begin":
		s.query(word, args)
	case "end", "fails", "leave":
		s.end(word, args[0])
	case "needs":
		ms, args := s.selector(args)
		require.Equal(s.t, args[1:], s.needs(ms, args[0]), s.line)
	case "samples":
		require.Equal(s.t, args[1], fmt.Sprint(len(s.answer[fmt.Sprintf(`{__name__="m", i="%s"}`, args[0])])), s.line)
	case "upstream":
		s.upstream(args)
	case "hold":
		s.up.held = make(chan struct{})
	case "release":
		close(s.up.held)
		s.up.held = nil
		s.settle()
	case "drop":
		_, err := s.c.Drop(s.span(args[0]))
		require.NoError(s.t, err, s.line)
	case "clear":
		s.c.Clear()
	case "ahead":
		require.NoError(s.t, (&prefetcher{c: s.c, Budget: Budget{Requests: 1e9}}).round(s.t.Context()), s.line)
		s.settle()
	case "expect":
		got := []string{}
		for _, a := range slices.SortedFunc(slices.Values(s.up.asked), func(a, b asked) int {
			return cmp.Or(cmp.Compare(a.mint, b.mint), cmp.Compare(a.text, b.text))
		}) {
			got = append(got, a.text)
		}
		if s.up.asked = nil; len(got) == 0 {
			got = append(got, "none")
		}
		require.Equal(s.t, strings.Join(args, " "), strings.Join(got, " "), s.line)
	default:
		require.Equal(s.t, strings.Join(args, " "), s.figure(word), s.line)
	}
}

// figure is what the cache says of itself.
func (s *story) figure(word string) string {
	switch word {
	case "tiles":
		return fmt.Sprint(s.c.Stats().Tiles)
	case "covers":
		var got []string
		for _, one := range s.entry(named("m")).covered.All() {
			got = append(got, clockOf(one.From)+".."+clockOf(one.To))
		}
		return strings.Join(got, " ")
	case "until":
		return clockOf(s.entry(named("m")).sel.KeptUntil)
	case "waiting":
		return fmt.Sprint(s.up.inside) // which does not change while nothing goes on
	case "corrected":
		return fmt.Sprint(counted(s.c.metrics.corrected))
	}
	s.t.Fatalf("%s: there is no such command", s.line)
	return ""
}

// option sets an option of the next cache.
func (s *story) option(arg string) {
	name, value, _ := strings.Cut(arg, "=")
	var err error
	switch name {
	case "disk":
		s.dir = s.t.TempDir()
	case "bytes":
		s.o.HostBytes, err = strconv.ParseInt(value, 10, 64)
	default:
		*map[string]*time.Duration{
			"tile": &s.o.Tile, "fresh": &s.o.Fresh, "recheck": &s.o.Recheck,
			"outoforder": &s.o.OutOfOrder, "maxage": &s.o.MaxAge, "retention": &s.o.Retention,
		}[name], err = time.ParseDuration(value)
	}
	require.NoError(s.t, err, s.line)
}

// open begins with a cache.
func (s *story) open() {
	o := s.o
	o.Now = func() time.Time { return time.UnixMilli(s.now) }
	if s.dir != "" {
		var err error
		o.Disk, err = disk.Open(disk.Options{Path: s.dir, Limit: 1 << 30})
		require.NoError(s.t, err, s.line)
	}
	s.c, s.up.asked = New(s.up, o), nil
}

// close ends with it, once all is on disk.
func (s *story) close() {
	if s.c != nil {
		s.settle()
		require.NoError(s.t, s.c.Close(), s.line)
	}
}

// settle waits until nothing goes on, but for what waits for the upstream.
func (s *story) settle() { synctest.Wait() }

// upstream sets what the upstream has.
func (s *story) upstream(args []string) {
	var err error
	s.up.series, err = strconv.Atoi(args[0])
	require.NoError(s.t, err, s.line)
	s.up.failing, s.up.warning, s.up.value = func(int64, int64) bool { return false }, false, 0
	s.up.until = func() int64 { return s.now }
	for _, arg := range args[1:] {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "failing":
			at := s.time(value)
			s.up.failing = func(mint, maxt int64) bool { return value == "" || mint <= at && at <= maxt }
		case "warning":
			s.up.warning = true
		case "changed":
			s.up.value = 1
		case "late":
			by, err := time.ParseDuration(value)
			require.NoError(s.t, err, s.line)
			s.up.until = func() int64 { return s.now - by.Milliseconds() }
		default:
			s.t.Fatalf("%s: the upstream has no %s", s.line, name)
		}
	}
}

// selector reads the selector before a span, if there is one, and returns what is behind it.
func (s *story) selector(args []string) ([]*labels.Matcher, []string) {
	if strings.Contains(args[0], "..") {
		return named("m"), args
	}
	ms := matchersIn(s.t, args[0])
	return ms, args[1:]
}

// query asks for what there is in a span, and waits until what was fetched is kept, or until it waits
// for the upstream.
func (s *story) query(word string, args []string) {
	name := ""
	if word == "begin" {
		name, args = args[0], args[1:]
	}
	ms, args := s.selector(args)
	mint, maxt := s.span(args[0])
	ctx, cancel := context.WithCancel(s.t.Context())
	b := &begun{cancel: cancel, done: make(chan struct{}), series: len(s.up.of(ms)), mint: mint, maxt: maxt}
	q, err := selection.Storage{Source: s.c}.Querier(mint, maxt)
	require.NoError(s.t, err)
	go func() {
		defer close(b.done)
		defer q.Close()
		b.answer, _, b.err = drain(q.Select(ctx, true, nil, ms...))
	}()
	s.settle()
	switch s.begun[name] = b; word {
	case "look":
		s.end("end", name)
	case "ask":
		<-b.done
		require.NoError(s.t, b.err, s.line)
		s.answer = b.answer
	case "fail":
		<-b.done
		require.ErrorIs(s.t, b.err, errUpstream, s.line)
	}
	if word != "begin" {
		cancel()
		delete(s.begun, name)
	}
}

// end ends a query that was begun.
func (s *story) end(word, name string) {
	b := s.begun[name]
	require.NotNil(s.t, b, s.line)
	delete(s.begun, name)
	if word == "leave" {
		b.cancel()
	}
	<-b.done
	s.settle()
	b.cancel()
	switch word {
	case "leave":
		require.ErrorIs(s.t, b.err, context.Canceled, s.line)
		return
	case "fails":
		require.ErrorIs(s.t, b.err, errUpstream, s.line)
		return
	}
	require.NoError(s.t, b.err, s.line)
	s.answer = b.answer
	requireMinutely(s.t, b.answer, b.series, b.mint, min(b.maxt, s.now))
}

// needs says where a query's stretches come from.
func (s *story) needs(ms []*labels.Matcher, span string) (out []string) {
	mint, maxt := s.span(span)
	m := s.c.moment()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	e := s.c.entries[matching.Key(ms)]
	if e == nil {
		e = &entry{key: matching.Key(ms), matchers: ms, name: matching.FixedName(ms)}
	}
	q := &question{Span: between(mint, maxt), at: m}
	parts, _ := need(q, s.c.state(e, q, maxWider))
	for _, p := range parts {
		from := p.from.String()
		if p.flight != nil {
			from = "flight"
		}
		out = append(out, from, clockOf(p.From)+".."+clockOf(p.To))
	}
	return out
}

// span reads two times with dots between them.
func (s *story) span(text string) (mint, maxt int64) {
	from, to, _ := strings.Cut(text, "..")
	return s.time(from), s.time(to)
}

// entry is what is kept of a selector.
func (s *story) entry(ms []*labels.Matcher) *entry {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	e := s.c.entries[matching.Key(ms)]
	require.NotNil(s.t, e, "%s: of those that are kept: %v", s.line, slices.Collect(maps.Keys(s.c.entries)))
	return e
}

// time reads hours, minutes and seconds, or "now", in ms.
func (s *story) time(text string) (ms int64) {
	switch text {
	case "":
		return 0
	case "now":
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

// clockOf writes ms as stories do.
func clockOf(ms int64) string {
	text := fmt.Sprintf("%d:%02d:%06.3f", ms/hour, ms/minute%60, float64(ms%minute)/1000)
	return strings.TrimSuffix(strings.TrimSuffix(text, ".000"), ":00")
}
