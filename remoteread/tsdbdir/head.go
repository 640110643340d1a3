package tsdbdir

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/promwarp/promwarp/internal/refcount"
)

// head is what the write-ahead log holds, replayed. It stays open: opening a
// querier of Prometheus's read-only database replays the log each time. That
// querier serves one reader at a time.
type head struct {
	*refcount.Count
	mint int64         // no sample is older, ms since the epoch
	free chan struct{} // holds one element when no one reads
	q    storage.ChunkQuerier
}

// openHead replays the log of the data directory at path. newest is the newest
// block, or nil: what the blocks have is not replayed.
func openHead(path string, newest *block, logger *slog.Logger) (_ *head, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	shadow, err := os.MkdirTemp("", "promwarp-head-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(shadow)
		}
	}()
	if err := makeShadow(shadow, path, newest); err != nil {
		return nil, fmt.Errorf("linking to the data directory from %s: %w", shadow, err)
	}
	db, err := tsdb.OpenDBReadOnly(shadow, "", quiet(logger))
	if err != nil {
		return nil, err
	}
	mint := int64(math.MinInt64)
	if newest != nil && !hasFiles(filepath.Join(path, "wbl")) {
		// No out-of-order samples: all of the log is after the newest block,
		// which is left out by starting where it ends.
		mint = newest.Meta().MaxTime
	}
	q, err := db.ChunkQuerier(mint, math.MaxInt64)
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("write-ahead log: %w; if a Prometheus is writing it, try again, otherwise start Prometheus on the directory once to repair it", err)
	}
	h := &head{mint: mint, free: make(chan struct{}, 1), q: q}
	h.free <- struct{}{}
	h.Count = refcount.New(func() {
		if err := q.Close(); err != nil {
			logger.Warn("closing the write-ahead log's querier failed", "err", err)
		}
		if err := db.Close(); err != nil {
			logger.Warn("closing the write-ahead log failed", "err", err)
		}
		if err := os.RemoveAll(shadow); err != nil {
			logger.Warn("removing a temporary directory failed", "err", err)
		}
	})
	return h, nil
}

// querier returns a querier of the head, for the caller alone until closed.
// Selects are bounded by their hints.
func (h *head) querier(ctx context.Context) (storage.ChunkQuerier, error) {
	select {
	case <-h.free:
		return lent{h.q, h}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lent is the querier of a head, which closing gives back.
type lent struct {
	storage.ChunkQuerier
	h *head
}

func (l lent) Close() error {
	l.h.free <- struct{}{}
	return nil
}

// makeShadow fills the directory shadow with links to the log at path, to its
// memory-mapped chunks one by one, and to the newest block. Prometheus's
// read-only database makes directories in what it opens and drops chunk files
// that it takes for damaged: there it touches links, never the data, and the
// links may cross file systems.
func makeShadow(shadow, path string, newest *block) error {
	for _, log := range []string{"wal", "wbl"} {
		if _, err := os.Stat(filepath.Join(path, log)); err == nil {
			if err := os.Symlink(filepath.Join(path, log), filepath.Join(shadow, log)); err != nil {
				return err
			}
		}
	}
	parts := []string{"chunks_head"}
	if newest != nil {
		parts = append(parts, newest.name)
	}
	for _, part := range parts {
		entries, err := os.ReadDir(filepath.Join(path, part))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(shadow, part), 0o700); err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.Symlink(filepath.Join(path, part, e.Name()), filepath.Join(shadow, part, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasFiles reports whether there is a file in dir that is not empty.
func hasFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > 0 {
			return true
		}
	}
	return false
}

// quiet passes on warnings and errors only: replaying a log tells of every
// segment.
func quiet(l *slog.Logger) *slog.Logger { return slog.New(warnings{l.Handler()}) }

type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warnings) WithAttrs(a []slog.Attr) slog.Handler { return warnings{h.Handler.WithAttrs(a)} }
func (h warnings) WithGroup(n string) slog.Handler      { return warnings{h.Handler.WithGroup(n)} }
