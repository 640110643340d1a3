package tsdbdir

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection"
)

const hour = int64(time.Hour / time.Millisecond)

// openTSDB opens a writable database at dir.
func openTSDB(t *testing.T, dir string, outOfOrder time.Duration) *tsdb.DB {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.RetentionDuration = 0
	o.OutOfOrderTimeWindow = outOfOrder.Milliseconds()
	db, err := tsdb.Open(dir, nil, nil, o, nil)
	require.NoError(t, err)
	return db
}

// write appends one sample a minute in [from, to) ms to three series.
func write(t *testing.T, db *tsdb.DB, from, to int64) {
	t.Helper()
	app := db.Appender(context.Background())
	for ts := from; ts < to; ts += 60_000 {
		for i := range 3 {
			_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), ts, float64(ts)+float64(i))
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
}

var isM = labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")

// times returns, per series, the times of the samples in [mint, maxt].
func times(t *testing.T, s *selection.Selection, mint, maxt int64) map[string][]int64 {
	t.Helper()
	out := map[string][]int64{}
	for i := range s.NumSeries() {
		var ts []int64
		for _, c := range s.Chunks(i) {
			chunk, err := chunkenc.FromData(c.Enc, s.Bytes(c))
			require.NoError(t, err)
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				if at := it.AtT(); at >= mint && at <= maxt {
					ts = append(ts, at)
				}
			}
			require.NoError(t, it.Err())
		}
		out[s.Labels(i).String()] = ts
	}
	return out
}

// every lists the times of one sample a minute in [from, to).
func every(from, to int64) (ts []int64) {
	for at := from; at < to; at += 60_000 {
		ts = append(ts, at)
	}
	return ts
}

// files lists all files below dir with their sizes and times of change.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%s %d %s %s", p, info.Size(), info.Mode(), info.ModTime()))
		return nil
	}))
	return all
}

func requireTimes(t *testing.T, d *Dir, mint, maxt int64, want []int64) {
	t.Helper()
	s, ws, err := d.Fetch(context.Background(), mint, maxt, []*labels.Matcher{isM}, selection.Fetch{})
	require.NoError(t, err)
	require.Empty(t, ws)
	got := times(t, s, mint, maxt)
	require.Len(t, got, 3)
	for series, ts := range got {
		require.Equal(t, want, ts, series)
	}
}

func TestDirectoryOfBlocksAndLog(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	db := openTSDB(t, dir, 0)
	write(t, db, 0, 7*hour)
	require.NoError(t, db.Compact(context.Background()))
	require.NotEmpty(t, db.Blocks())
	require.NoError(t, db.Close())
	before := files(t, dir)

	d, err := Open(dir, nil)
	require.NoError(t, err)
	requireTimes(t, d, 0, 8*hour, every(0, 7*hour))
	requireTimes(t, d, hour, 3*hour, every(hour, 3*hour+1))
	requireTimes(t, d, 6*hour, 8*hour, every(6*hour, 7*hour))
	requireTimes(t, d, math.MinInt64, math.MaxInt64, every(0, 7*hour))

	names, _, err := d.LabelNames(context.Background(), 0, 8*hour, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"__name__", "i"}, names)
	values, _, err := d.LabelValues(context.Background(), 0, 8*hour, "i", nil, isM)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, values)

	d.Close()
	d.Close()
	_, _, err = d.Fetch(context.Background(), 0, 1, []*labels.Matcher{isM}, selection.Fetch{})
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, before, files(t, dir), "the directory must be left as it was")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing may stay behind")
}

func TestDirectoryWithOutOfOrderSamples(t *testing.T) {
	dir := t.TempDir()
	db := openTSDB(t, dir, 24*time.Hour)
	write(t, db, 2*hour, 8*hour)
	require.NoError(t, db.Compact(context.Background()))
	write(t, db, hour, 2*hour) // late
	require.NoError(t, db.Close())

	d, err := Open(dir, nil)
	require.NoError(t, err)
	defer d.Close()
	requireTimes(t, d, 0, 9*hour, every(hour, 8*hour))
}

func TestOnlyLogOrOnlyBlocks(t *testing.T) {
	dir := t.TempDir()
	db := openTSDB(t, dir, 0)
	write(t, db, 0, hour)
	require.NoError(t, db.Close())
	d, err := Open(dir, nil)
	require.NoError(t, err)
	requireTimes(t, d, 0, 9*hour, every(0, hour))
	d.Close()

	db = openTSDB(t, dir, 0)
	write(t, db, hour, 7*hour)
	require.NoError(t, db.Compact(context.Background()))
	end := db.Blocks()[len(db.Blocks())-1].MaxTime()
	require.NoError(t, db.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "wal")))
	d, err = Open(dir, nil)
	require.NoError(t, err)
	requireTimes(t, d, 0, 9*hour, every(0, end))
	d.Close()
}

func TestNewSamplesAndBlocksAreSeen(t *testing.T) {
	dir := t.TempDir()
	db := openTSDB(t, dir, 0)
	write(t, db, 0, hour)
	d, err := Open(dir, nil)
	require.NoError(t, err)
	defer d.Close()
	requireTimes(t, d, 0, 9*hour, every(0, hour))

	first := d.current
	write(t, db, hour, 2*hour)
	requireTimes(t, d, 0, 9*hour, every(0, hour)) // looked at a moment ago
	require.Same(t, first, d.current)

	d.recheck, d.took = 0, 0
	requireTimes(t, d, 0, 9*hour, every(0, 2*hour))
	require.NotSame(t, first, d.current)
	second := d.current
	d.took = 0
	requireTimes(t, d, 0, 9*hour, every(0, 2*hour))
	require.Same(t, second, d.current, "nothing changed, so nothing may be opened again")

	write(t, db, 2*hour, 7*hour)
	require.NoError(t, db.Compact(context.Background()))
	d.took = 0
	requireTimes(t, d, 0, 9*hour, every(0, 7*hour))
	require.NotEmpty(t, d.current.blocks)
	block := d.current.blocks[0]
	write(t, db, 7*hour, 8*hour)
	d.took = 0
	requireTimes(t, d, 0, 9*hour, every(0, 8*hour))
	require.Same(t, block, d.current.blocks[0], "a block that stayed must not be opened again")
	require.NoError(t, db.Close())
}

func TestUnreadableChangeKeepsWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	db := openTSDB(t, dir, 0)
	write(t, db, 0, hour)
	require.NoError(t, db.Close())
	d, err := Open(dir, nil)
	require.NoError(t, err)
	defer d.Close()

	bad := filepath.Join(dir, "01HV0000000000000000000000")
	require.NoError(t, os.Mkdir(bad, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(bad, "meta.json"), []byte("{"), 0o666))
	d.recheck, d.took = 0, 0
	s, ws, err := d.Fetch(context.Background(), 0, hour, []*labels.Matcher{isM}, selection.Fetch{})
	require.NoError(t, err)
	require.Equal(t, 3, s.NumSeries())
	require.ErrorContains(t, ws.AsErrors()[0], "newer samples may be missing")
}

func TestClosingWhileInUse(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	db := openTSDB(t, dir, 0)
	write(t, db, 0, 7*hour)
	require.NoError(t, db.Compact(context.Background()))
	d, err := Open(dir, nil)
	require.NoError(t, err)
	d.recheck, d.took = 0, 0

	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				s, _, err := d.Fetch(context.Background(), 0, 9*hour, []*labels.Matcher{isM}, selection.Fetch{})
				if err != nil {
					require.ErrorIs(t, err, ErrClosed)
					return
				}
				if s.NumSeries() != 3 {
					t.Errorf("%d series", s.NumSeries())
				}
			}
		})
	}
	for h := int64(7); h < 10; h++ {
		write(t, db, h*hour, (h+1)*hour)
		time.Sleep(20 * time.Millisecond)
	}
	d.Close()
	readers.Wait()
	require.NoError(t, db.Close())
}

func TestNotADataDirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "none"), nil)
	require.ErrorContains(t, err, "no such file")

	_, err = Open(dir, nil)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "meta.json")
	require.ErrorContains(t, err, "--storage.tsdb.path")

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	_, err = Open(file, nil)
	require.ErrorContains(t, err, "it is a file")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", "wal"), 0o777))
	_, err = Open(dir, nil)
	require.ErrorContains(t, err, filepath.Join(dir, "data"))
}
