// Package tsdbdir reads a local Prometheus data directory: the blocks of one
// that runs or ran, and its write-ahead log. Nothing in the directory is
// changed.
package tsdbdir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// recheck is how long the directory is taken to be unchanged. A head that took
// long to replay is kept for longer: see Dir.due.
const recheck = 5 * time.Second

// ErrClosed is returned by a Dir that was closed.
var ErrClosed = errors.New("the data directory was closed")

// Dir is a data directory. It is safe for concurrent use.
type Dir struct {
	path    string
	logger  *slog.Logger
	recheck time.Duration

	mu      sync.Mutex
	current *snapshot // nil once closed
	checked time.Time // when current was last found to be what is on disk
	took    time.Duration

	refreshing sync.Mutex // held by the one that looks for changes
}

// Open opens the data directory at path. logger may be nil.
func Open(path string, logger *slog.Logger) (*Dir, error) {
	if logger == nil {
		logger = promslog.NewNopLogger()
	}
	d := &Dir{path: path, logger: logger, recheck: recheck}
	if err := isDataDir(path); err != nil {
		return nil, err
	}
	// A Prometheus that is writing may cut a block or drop a segment while it
	// is being read.
	var err error
	for range 3 {
		start := time.Now()
		if d.current, err = openSnapshot(path, nil, logger); err == nil {
			d.checked, d.took = time.Now(), time.Since(start)
			return d, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("opening the Prometheus data directory %s: %w", path, err)
}

// isDataDir says what is wrong with path, if it is not a data directory.
func isDataDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the Prometheus data directory: %w; give what Prometheus's --storage.tsdb.path names", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a Prometheus data directory: it is a file", path)
	}
	l, err := list(path)
	if err != nil {
		return fmt.Errorf("reading the Prometheus data directory: %w", err)
	}
	if len(l.blocks) > 0 || l.hasWAL {
		return nil
	}
	const want = "a data directory holds wal/, or blocks (directories such as 01HV0000000000000000000000 with a meta.json)"
	if inner, err := list(filepath.Join(path, "data")); err == nil && (len(inner.blocks) > 0 || inner.hasWAL) {
		return fmt.Errorf("%s is not a Prometheus data directory, but %s is; give that one", path, filepath.Join(path, "data"))
	}
	return fmt.Errorf("%s is not a Prometheus data directory: %s; give what Prometheus's --storage.tsdb.path names", path, want)
}

// String is the directory's path.
func (d *Dir) String() string { return d.path }

// Answers reports that every selector is answered, by the labels that series have.
func (d *Dir) Answers([]*labels.Matcher) bool { return true }

// Fetch returns what matchers match in [mint, maxt], in ms since the epoch.
func (d *Dir) Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, _ selection.Fetch) (sel *selection.Selection, ws annotations.Annotations, err error) {
	ws, err = d.read(ctx, mint, maxt, func(q storage.ChunkQuerier) (ws annotations.Annotations, err error) {
		// Whole chunks are as good and need no encoding anew.
		hints := &storage.SelectHints{Start: mint, End: maxt, DisableTrimming: true}
		sel, ws, err = selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, hints, matchers...), 0)
		return ws, err
	})
	return sel, ws, err
}

// read has f read what is in [mint, maxt], and returns its warnings and those about the directory.
func (d *Dir) read(ctx context.Context, mint, maxt int64, f func(storage.ChunkQuerier) (annotations.Annotations, error)) (annotations.Annotations, error) {
	s, ws, err := d.acquire()
	if err != nil {
		return nil, err
	}
	defer s.Release()
	q, err := s.querier(ctx, mint, maxt)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.path, err)
	}
	defer q.Close()
	more, err := f(q)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.path, err)
	}
	return ws.Merge(more), nil
}

// LabelNames returns the names of the labels of series that matchers match in
// [mint, maxt].
func (d *Dir) LabelNames(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers ...*labels.Matcher) (names []string, ws annotations.Annotations, err error) {
	ws, err = d.read(ctx, mint, maxt, func(q storage.ChunkQuerier) (ws annotations.Annotations, err error) {
		names, ws, err = q.LabelNames(ctx, hints, matchers...)
		return ws, err
	})
	return names, ws, err
}

// LabelValues returns the values of label name of series that matchers match
// in [mint, maxt].
func (d *Dir) LabelValues(ctx context.Context, mint, maxt int64, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) (values []string, ws annotations.Annotations, err error) {
	ws, err = d.read(ctx, mint, maxt, func(q storage.ChunkQuerier) (ws annotations.Annotations, err error) {
		values, ws, err = q.LabelValues(ctx, name, hints, matchers...)
		return ws, err
	})
	return values, ws, err
}

// Close releases the directory. Reads under way may finish.
func (d *Dir) Close() {
	d.mu.Lock()
	s := d.current
	d.current = nil
	d.mu.Unlock()
	if s != nil {
		s.Release()
	}
}

// acquire returns the present snapshot, held for the caller, after looking for
// changes when that is due. Where a changed directory cannot be read the last
// good snapshot is returned with a warning.
func (d *Dir) acquire() (*snapshot, annotations.Annotations, error) {
	var ws annotations.Annotations
	d.mu.Lock()
	// At most a tenth of the time goes into replaying the head of a Prometheus that keeps writing.
	due := d.current != nil && time.Since(d.checked) >= max(d.recheck, 10*d.took)
	d.mu.Unlock()
	if due && d.refreshing.TryLock() {
		if err := d.refresh(); err != nil {
			d.logger.Warn("the data directory changed but cannot be read; answering from what was there before", "dir", d.path, "err", err)
			ws = ws.Add(fmt.Errorf("the data directory %s changed but cannot be read, so newer samples may be missing: %w", d.path, err))
		}
		d.refreshing.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || !d.current.Hold() {
		return nil, nil, fmt.Errorf("reading %s: %w", d.path, ErrClosed)
	}
	return d.current, ws, nil
}

// refresh replaces the snapshot if the directory changed.
func (d *Dir) refresh() error {
	d.mu.Lock()
	old := d.current
	held := old != nil && old.Hold()
	d.mu.Unlock()
	if !held {
		return nil // closed
	}
	defer old.Release()

	start := time.Now()
	next, err := openSnapshot(d.path, old, d.logger)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checked = time.Now()
	switch {
	case err != nil:
		return err
	case next == old:
		return nil
	case d.current == nil: // closed meanwhile
		go next.Release()
		return nil
	}
	d.took = time.Since(start)
	d.current = next
	go old.Release() // unmapping may take a while; the lock is held
	return nil
}
