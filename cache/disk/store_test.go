package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// some makes a selection of n series with a sample a second from mint to maxt
// (ms), whose values are their times plus add.
func some(t testing.TB, n int, mint, maxt int64, add float64) *selection.Selection {
	t.Helper()
	b := selection.NewBuilder(0)
	for i := range n {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%06d", i), "empty", ""))
		for from := mint; from <= maxt; from += 50_000 {
			to := min(maxt, from+49_000)
			data := selectiontest.Encode(t, chunkenc.EncXOR, selectiontest.TimesBetween(from, to, 1000), func(ts int64) float64 { return float64(ts) + add })
			require.NoError(t, b.Chunk(chunkenc.EncXOR, from, to, data))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// content is what a selection holds, in a form that can be compared.
func content(t testing.TB, s *selection.Selection) string {
	t.Helper()
	out := ""
	for set := s.SeriesSet(math.MinInt64, math.MaxInt64, nil); set.Next(); {
		out += set.At().Labels().String()
		for _, one := range selectiontest.Drain(t, set.At().Iterator(nil)) {
			out += fmt.Sprint(" ", one.T, "=", math.Float64frombits(one.V))
		}
	}
	return out
}

// Content is what a file has.
type Content struct {
	Covered   tile.Coverage
	Selection *selection.Selection
}

// cover is what was fetched at one time.
func cover(from, to, at int64) tile.Coverage {
	return tile.Coverage(nil).With(tile.Span{From: from, To: to}, at)
}

// used loads what files have of a stretch, and reports whether there is anything.
func used(t testing.TB, s *Store, key string, from, to int64) (any bool) {
	t.Helper()
	of := tile.Span{From: from, To: to}
	for _, f := range s.Files(key) {
		if len(f.Covered.Within(of)) > 0 {
			sel, err := s.Load(t.Context(), f, of)
			require.NoError(t, err)
			any = any || sel != nil
		}
	}
	return any
}

// loaded is what a store has of a selector, oldest first.
func loaded(t testing.TB, s *Store, key string) (parts []Content) {
	t.Helper()
	for _, f := range s.Files(key) {
		sel, err := s.Load(t.Context(), f, tile.Span{From: math.MinInt64, To: math.MaxInt64})
		require.NoError(t, err)
		if sel != nil {
			parts = append(parts, Content{f.Covered, sel})
		}
	}
	return parts
}

func contents(t testing.TB, parts []Content) (out []string) {
	for _, p := range parts {
		out = append(out, fmt.Sprint(p.Covered, content(t, p.Selection)))
	}
	return out
}

// open opens a store that is closed when the test ends, and its log.
func open(t testing.TB, o Options) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	if o.Limit == 0 {
		o.Limit = 1 << 30
	}
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, &log
}

func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range found {
		if f.Name() != lockName {
			names = append(names, f.Name())
		}
	}
	return names
}

func TestPutAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cache")
	s, _ := open(t, Options{Path: dir, Identity: "a"})
	require.False(t, used(t, s, "k", 0, 10))
	require.Empty(t, loaded(t, s, "k"))
	one, two := some(t, 3, 0, 100_000, 0), some(t, 100, 200_000, 300_000, 0.5)
	stretches := cover(0, 50_000, 7).With(tile.Span{From: 50_000, To: 100_001}, math.MaxInt64)
	require.NoError(t, s.Put(t.Context(), "k", stretches, one, nil))
	require.NoError(t, s.Put(t.Context(), "k", cover(200_000, 300_001, -9), two, nil))
	require.NoError(t, s.Put(t.Context(), "empty", cover(0, 1, 0), selection.Empty(), nil))
	want := []string{fmt.Sprint(stretches, content(t, one)), fmt.Sprint(cover(200_000, 300_001, -9), content(t, two))}
	for range 2 {
		require.True(t, used(t, s, "k", 0, 10))
		require.Equal(t, want, contents(t, loaded(t, s, "k")))
		require.Equal(t, []string{fmt.Sprint(cover(0, 1, 0))}, contents(t, loaded(t, s, "empty")))
		stats := s.Stats()
		require.Equal(t, 3, stats.Files)
		require.Equal(t, 2, stats.Selectors)
		require.Positive(t, stats.Bytes)
		require.Zero(t, stats.Bad)

		sel := loaded(t, s, "k")[1].Selection

		// The next process has it, too; a second at one time is refused.
		_, err := Open(Options{Path: dir})
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Equal(t, content(t, two), content(t, sel), "what was loaded stays readable")
		require.ErrorIs(t, s.Put(t.Context(), "k", nil, one, nil), ErrClosed)
		require.False(t, used(t, s, "k", 0, 10))
		require.Empty(t, loaded(t, s, "k"))
		s, _ = open(t, Options{Path: dir, Identity: "a"})
	}
	require.NoError(t, s.Drop("k"))
	require.NoError(t, s.Drop("k"))
	require.Empty(t, loaded(t, s, "k"))
	require.Equal(t, []string{"empty"}, s.Keys())
	require.Len(t, files(t, dir), 1)

	// Another source's samples are no good.
	require.NoError(t, s.Close())
	s, log := open(t, Options{Path: dir, Identity: "b"})
	require.Empty(t, s.Keys())
	require.Empty(t, files(t, dir))
	require.Contains(t, log.String(), "another source")
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Path: dir})
	for i := range int64(3) {
		require.NoError(t, s.Put(t.Context(), "k", cover(i, i+1, i), some(t, 2, i, i, 0), nil))
	}
	fs := s.Files("k")
	require.Len(t, fs, 3)
	require.Equal(t, cover(1, 2, 1), fs[1].Covered)
	require.NoError(t, s.Put(t.Context(), "k", cover(1, 3, 9), some(t, 2, 1, 2, 0), []uint64{fs[1].Seq, fs[2].Seq}))
	require.Equal(t, []string{nameOf(fs[0].Seq), nameOf(4)}, files(t, dir))
	require.Len(t, loaded(t, s, "k"), 2)
	require.Equal(t, 2, s.Stats().Files)
}

func TestLimit(t *testing.T) {
	sel := some(t, 5, 0, 100_000, 0)
	all := cover(0, 100_001, 1)
	probe, _ := open(t, Options{Path: t.TempDir()})
	require.NoError(t, probe.Put(t.Context(), "k0", all, sel, nil))
	one := probe.Stats().Bytes

	dir := t.TempDir()
	s, _ := open(t, Options{Path: dir, Limit: 3*one + one/2})
	for i := range 3 {
		require.NoError(t, s.Put(t.Context(), fmt.Sprint("k", i), all, sel, nil))
	}
	require.True(t, used(t, s, "k0", 0, 10))
	require.NoError(t, s.Put(t.Context(), "k3", all, sel, nil))
	require.ElementsMatch(t, []string{"k0", "k2", "k3"}, s.Keys())
	require.Len(t, files(t, dir), 3)
	require.EqualValues(t, 1, s.Stats().Evicted)
	require.ErrorIs(t, s.Put(t.Context(), "k4", nil, some(t, 50, 0, 100_000, 0), nil), ErrTooLarge)
	require.ElementsMatch(t, []string{"k0", "k2", "k3"}, s.Keys())
	require.Len(t, files(t, dir), 3)

	// A smaller limit holds from the start.
	require.NoError(t, s.Close())
	s, _ = open(t, Options{Path: dir, Limit: one + one/2})
	require.Equal(t, []string{"k3"}, s.Keys())
}

// Files of one selector go one by one, but none before one that is older and
// would take its place.
func TestLimitWithinASelector(t *testing.T) {
	sel := some(t, 5, 0, 100_000, 0)
	probe, _ := open(t, Options{Path: t.TempDir()})
	require.NoError(t, probe.Put(t.Context(), "k", cover(0, 100_001, 1), sel, nil))
	one := probe.Stats().Bytes
	s, _ := open(t, Options{Path: t.TempDir(), Limit: 5*one + one/2})
	put := func(from, to int64) {
		require.NoError(t, s.Put(t.Context(), "k", cover(from, to, 1), sel, nil))
	}
	covered := func() (out []int64) {
		for _, f := range s.Files("k") {
			out = append(out, f.Covered[0].From)
		}
		return out
	}
	for i := range int64(5) {
		put(i*10, i*10+11) // each overlaps the next
	}
	require.False(t, used(t, s, "k", 60, 70))
	require.True(t, used(t, s, "k", 0, 15))
	require.True(t, used(t, s, "k", 42, 45))
	put(100, 110)
	require.Equal(t, []int64{30, 40, 100}, covered(), "with the third go those that it is newer than")
	put(200, 210)
	put(300, 310)
	require.True(t, used(t, s, "k", 0, 105))
	put(400, 410)
	require.Equal(t, []int64{30, 40, 100, 300, 400}, covered())
	require.EqualValues(t, 4, s.Stats().Evicted)
}

// Whatever happens to a file, at any byte, it is never read as something else.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Path: dir})
	good := some(t, 2, 0, 9_000, 0)
	require.NoError(t, s.Put(t.Context(), "k", cover(0, 10_000, 1), good, nil))
	require.NoError(t, s.Close())
	name := filepath.Join(dir, files(t, dir)[0])
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Less(t, len(whole), 1000)
	try := func(what string, b []byte) {
		require.NoError(t, os.WriteFile(name, b, 0o600))
		s, log := open(t, Options{Path: dir})
		if parts := loaded(t, s, "k"); len(parts) > 0 {
			require.Equal(t, whole, b, what)
			require.Equal(t, content(t, good), content(t, parts[0].Selection), what)
			require.NoError(t, s.Close())
			return
		}
		require.NotEqual(t, whole, b, what)
		require.Contains(t, log.String(), "Dropped a file", what)
		require.EqualValues(t, 1, s.Stats().Bad, what)
		require.Zero(t, s.Stats().Bytes, what)
		require.Empty(t, files(t, dir), what)
		require.NoError(t, s.Close())
	}
	try("whole", whole)
	for i := range whole {
		for _, bit := range []byte{1, 128} {
			b := bytes.Clone(whole)
			b[i] ^= bit
			try(fmt.Sprintf("byte %d ^ %d", i, bit), b)
		}
		try(fmt.Sprintf("first %d bytes", i), whole[:i])
		try(fmt.Sprintf("all but %d bytes", i+1), whole[i+1:])
		try(fmt.Sprintf("byte %d missing", i), append(bytes.Clone(whole[:i]), whole[i+1:]...))
		try(fmt.Sprintf("zeros from byte %d", i), append(bytes.Clone(whole[:i]), make([]byte, len(whole)-i)...))
	}
	try("twice", append(bytes.Clone(whole), whole...))
	try("more", append(bytes.Clone(whole), 0))
	try("foreign", bytes.Repeat([]byte("not a cache file\n"), 100))

	// Damage after the directory was opened.
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	s, log := open(t, Options{Path: dir})
	require.NoError(t, os.Truncate(name, 10))
	require.Empty(t, loaded(t, s, "k"))
	require.Contains(t, log.String(), "Dropped a file")

	// What is no file, at the start and later.
	for what, instead := range map[string]func() error{
		"a FIFO":      func() error { return syscall.Mkfifo(name, 0o600) },
		"a directory": func() error { return os.Mkdir(name, 0o700) },
		"a link":      func() error { return os.Symlink("/dev/zero", name) },
	} {
		for _, late := range []bool{false, true} {
			require.NoError(t, s.Close())
			require.NoError(t, os.WriteFile(name, whole, 0o600))
			if late {
				s, log = open(t, Options{Path: dir})
			}
			require.NoError(t, os.Remove(name))
			require.NoError(t, instead())
			if !late {
				s, log = open(t, Options{Path: dir})
			}
			require.Empty(t, loaded(t, s, "k"), what)
			require.Contains(t, log.String(), "Dropped a file", what)
			require.EqualValues(t, 1, s.Stats().Bad, what)
			require.Empty(t, files(t, dir), what)
		}
	}

	// A file under another's name, and those of other programs.
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, nameOf(77)), whole, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "holiday.jpg"), whole, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0000000000000001.tiles.tmp"), whole[:50], 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queries.active"), nil, 0o600))
	s, log = open(t, Options{Path: dir})
	require.Empty(t, s.Keys())
	require.Equal(t, []string{"holiday.jpg", "queries.active"}, files(t, dir))
	require.Contains(t, log.String(), "left alone\" files=1\n", "what promwarp itself writes there is none of another program")
}

// failAt returns what has the change of files of a number fail, and those after it unless they work again.
func failAt(n int, again bool, err error) (before func(string) error, left *int) {
	return func(operation string) error {
		if operation == "open" || operation == "read" {
			return nil
		}
		if n--; n == -1 || n < 0 && !again {
			return err
		}
		return nil
	}, &n
}

// A program that ends at any operation on files leaves what is right.
func TestCrash(t *testing.T) {
	script := func(s *Store) (done []error) {
		do := func(err error) { done = append(done, err) }
		do(s.Put(t.Context(), "a", cover(0, 1, 1), some(t, 1, 0, 0, 1), nil))
		do(s.Put(t.Context(), "a", cover(1, 2, 2), some(t, 1, 1, 1, 2), nil))
		do(s.Put(t.Context(), "b", cover(0, 1, 3), some(t, 1, 0, 0, 3), nil))
		do(s.Put(t.Context(), "a", cover(0, 2, 4), some(t, 1, 0, 1, 4), []uint64{1, 2}))
		do(s.Drop("b"))
		do(s.Put(t.Context(), "b", cover(5, 6, 5), some(t, 1, 5, 5, 5), nil))
		return done
	}
	// The states that there may be, by what was done before.
	ats := func(s *Store, key string) (at []int64) {
		for _, p := range loaded(t, s, key) {
			at = append(at, p.Covered[0].At)
			require.Contains(t, content(t, p.Selection), fmt.Sprintf("=%d", p.Covered[0].From+p.Covered[0].At))
		}
		return at
	}
	allowed := map[string]bool{}
	for _, state := range []string{"[] []", "[1] []", "[1 2] []", "[1 2] [3]", "[4] [3]", "[4] []", "[4] [5]"} {
		allowed[state] = true
	}
	ended := false
	for n := 0; !ended; n++ {
		dir := t.TempDir()
		before, _ := failAt(n, false, errors.New("the program has ended"))
		s, err := Open(Options{Limit: 1 << 20, Path: dir, Before: before})
		require.NoError(t, err)
		done := script(s)
		require.NoError(t, s.Close())
		ended = errors.Join(done...) == nil
		again, log := open(t, Options{Path: dir})
		state := fmt.Sprint(ats(again, "a"), " ", ats(again, "b"))
		require.True(t, allowed[state], "after %d operations: %s", n, state)
		if done[0] == nil {
			require.NotEqual(t, "[] []", state)
		}
		if done[3] == nil {
			require.True(t, strings.HasPrefix(state, "[4]"), state)
		}
		if done[4] == nil {
			require.NotContains(t, state, "[3]")
		}
		if ended {
			require.Equal(t, "[4] [5]", state)
		}
		require.Empty(t, log.String())
		for _, f := range files(t, dir) {
			require.True(t, strings.HasSuffix(f, extension), f)
		}
		require.NoError(t, again.Close())
	}
}

// An operation that fails once, as on a full disk, leaves what is right, in
// this process and in the next.
func TestFailure(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		before, left := failAt(n, true, errors.New("no space left"))
		s, err := Open(Options{Limit: 1 << 20, Path: dir, Before: before})
		require.NoError(t, err)
		sel := func(at float64) *selection.Selection { return some(t, 1, 0, 0, at) }
		first := s.Put(t.Context(), "a", cover(0, 1, 1), sel(1), nil)
		second := s.Put(t.Context(), "a", cover(0, 1, 2), sel(2), []uint64{1})
		dropped := s.Drop("a")
		require.Empty(t, loaded(t, s, "a"))
		third := s.Put(t.Context(), "a", cover(0, 1, 3), sel(3), nil)
		if third == nil {
			require.Len(t, loaded(t, s, "a"), 1)
		}
		require.NoError(t, s.Close())
		again, _ := open(t, Options{Path: dir})
		parts := loaded(t, again, "a")
		switch {
		case dropped != nil && len(parts) > 0: // said that it may come back
		case third == nil:
			require.Len(t, parts, 1)
			require.EqualValues(t, 3, parts[0].Covered[0].At, "failure %d: %v %v", n, first, second)
		default:
			require.Empty(t, parts)
		}
		require.NoError(t, again.Close())
		if *left >= 0 {
			return
		}
	}
}

// FuzzFile opens any bytes as a file, as they are and with the checksums that they ought to
// have: it is an error, or what is in it can be decoded, or fails to.
func FuzzFile(f *testing.F) {
	for _, sel := range []*selection.Selection{some(f, 2, 0, 60_000, 0), selection.Empty()} {
		var b bytes.Buffer
		h := head{key: "k", Covered: cover(0, 100_000, 5)}
		require.NoError(f, writeFile(f.Context(), &b, sel, &h, &footer{Seq: 1}))
		f.Add(b.Bytes(), false)
		f.Add(b.Bytes(), true)
		f.Add(b.Bytes()[:b.Len()/2], true)
		f.Add(b.Bytes()[b.Len()/3:], true)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if sums {
			b = withSums(b)
		}
		file, r := &File{}, bytes.NewReader(b)
		var err error
		if file.footer, file.head, err = readHead(r, r.Size()); err != nil {
			return
		}
		sel, err := file.load(t.Context(), r, tile.Span{From: math.MinInt64, To: math.MaxInt64}, func() error { return nil })
		if err != nil {
			return
		}
		for set := sel.SeriesSet(math.MinInt64, math.MaxInt64, nil); set.Next(); {
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
			}
		}
	})
}

// withSums returns b with the checksums in it made right, as far as it has their places, and
// with the sizes that its footer gives if these are those of a file.
func withSums(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < footerSize {
		return b
	}
	foot := b[len(b)-footerSize:]
	copy(foot, magic)
	copy(foot[8:24], identityOf(""))
	binary.LittleEndian.PutUint64(foot[24:], 1)
	binary.LittleEndian.PutUint64(foot[32:], uint64(len(b)))
	seriesLen, headLen := binary.LittleEndian.Uint64(foot[40:]), uint64(binary.LittleEndian.Uint32(foot[48:]))
	body := b[:len(b)-footerSize]
	if headLen <= uint64(len(body)) && seriesLen <= uint64(len(body))-headLen {
		index := body[uint64(len(body))-headLen:]
		series := body[uint64(len(body))-headLen-seriesLen:][:seriesLen]
		if h, err := parseHead(index); err == nil {
			at := uint64(0)
			for i, l := range h.slabs {
				if l.size > uint64(len(body))-at {
					break
				}
				h.slabs[i].sum = checksum(body[at : at+l.size])
				at += l.size
			}
			if again := h.append(nil); len(again) == len(index) {
				copy(index, again)
			}
		}
		binary.LittleEndian.PutUint32(foot[52:], checksum(series))
		binary.LittleEndian.PutUint32(foot[56:], checksum(index))
	}
	binary.LittleEndian.PutUint32(foot[60:], checksum(foot[:60]))
	return b
}

// identityOf is how files name a source.
func identityOf(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:16]
}
