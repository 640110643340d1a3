package tsdbdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/promwarp/promwarp/internal/refcount"
)

// snapshot is a data directory as it was at one time. Blocks are shared with
// the snapshots before and after.
type snapshot struct {
	*refcount.Count
	was    listing
	blocks []*block
	head   *head // nil without a log
}

// block is an open block.
type block struct {
	*refcount.Count
	*tsdb.Block
	name string
}

// openSnapshot opens the data directory at path, taking over from old, which
// may be nil, what is the same. If all is, it returns old.
func openSnapshot(path string, old *snapshot, logger *slog.Logger) (_ *snapshot, err error) {
	now, err := list(path)
	if err != nil {
		return nil, err
	}
	sameBlocks := old != nil && slices.Equal(old.was.blocks, now.blocks)
	sameLogs := old != nil && old.was.logs == now.logs && old.was.hasWAL == now.hasWAL
	if sameBlocks && sameLogs {
		return old, nil
	}

	s := &snapshot{was: now}
	s.Count = refcount.New(s.closeParts)
	defer func() {
		if err != nil {
			s.closeParts()
		}
	}()
	for _, name := range now.blocks {
		b, err := openBlock(path, name, old, logger)
		if err != nil {
			return nil, err
		}
		s.blocks = append(s.blocks, b)
	}
	s.dropSuperseded()

	// The head is replayed from where the blocks end, so it changes with them.
	if now.hasWAL {
		if s.head, err = openHead(path, s.newestBlock(), logger); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openBlock returns the named block, the one in old if it is there.
func openBlock(path, name string, old *snapshot, logger *slog.Logger) (*block, error) {
	if old != nil {
		for _, b := range old.blocks {
			if b.name == name && b.Hold() {
				return b, nil
			}
		}
	}
	b, err := tsdb.OpenBlock(logger, filepath.Join(path, name), nil, tsdb.DefaultPostingsDecoderFactory)
	if err != nil {
		return nil, fmt.Errorf("block %s: %w", name, err)
	}
	return &block{
		Count: refcount.New(func() {
			if err := b.Close(); err != nil {
				logger.Warn("closing a block failed", "block", name, "err", err)
			}
		}),
		Block: b,
		name:  name,
	}, nil
}

// dropSuperseded drops blocks that were compacted into one that is here: for a
// moment both are on disk.
func (s *snapshot) dropSuperseded() {
	gone := map[string]bool{}
	for _, b := range s.blocks {
		for _, p := range b.Meta().Compaction.Parents {
			gone[p.ULID.String()] = true
		}
	}
	s.blocks = slices.DeleteFunc(s.blocks, func(b *block) bool {
		if gone[b.name] {
			b.Release()
		}
		return gone[b.name]
	})
}

// newestBlock is the block up to whose end the head was written out, or nil.
func (s *snapshot) newestBlock() *block {
	var newest *block
	for _, b := range s.blocks {
		m := b.Meta()
		if m.Compaction.FromOutOfOrder() {
			continue // written from what came late, which says nothing of the rest
		}
		if newest == nil || m.MaxTime > newest.Meta().MaxTime {
			newest = b
		}
	}
	return newest
}

// querier returns a querier of what is in [mint, maxt].
func (s *snapshot) querier(ctx context.Context, mint, maxt int64) (_ storage.ChunkQuerier, err error) {
	var qs []storage.ChunkQuerier
	defer func() {
		if err != nil {
			for _, q := range qs {
				err = errors.Join(err, q.Close())
			}
		}
	}()
	for _, b := range s.blocks {
		if !b.OverlapsClosedInterval(mint, maxt) {
			continue
		}
		q, err := tsdb.NewBlockChunkQuerier(b.Block, mint, maxt)
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", b.name, err)
		}
		qs = append(qs, q)
	}
	if s.head != nil && maxt >= s.head.mint {
		q, err := s.head.querier(ctx)
		if err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	return storage.NewMergeChunkQuerier(qs, nil, storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge)), nil
}

// closeParts gives up what the snapshot holds.
func (s *snapshot) closeParts() {
	for _, b := range s.blocks {
		b.Release()
	}
	if s.head != nil {
		s.head.Release()
	}
}

// listing is what is in a data directory.
type listing struct {
	blocks []string // names of block directories, sorted
	hasWAL bool
	logs   string // names and sizes of the log files; equal when nothing was written
}

// list looks into the data directory at path.
func list(path string) (listing, error) {
	var l listing
	entries, err := os.ReadDir(path)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(path, e.Name(), "meta.json")); err == nil {
			l.blocks = append(l.blocks, e.Name())
		}
	}
	slices.Sort(l.blocks)
	if info, err := os.Stat(filepath.Join(path, "wal")); err == nil && info.IsDir() {
		l.hasWAL = true
	}
	var logs strings.Builder
	for _, dir := range []string{"wal", "wbl", "chunks_head"} {
		// WalkDir does not follow a link, and wal is often one, to a faster disk.
		root, err := filepath.EvalSymlinks(filepath.Join(path, dir))
		if err != nil {
			continue
		}
		err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				info, err := e.Info()
				if err != nil {
					return ignoreGone(err)
				}
				logs.WriteString(p + "\x00" + strconv.FormatInt(info.Size(), 10) + "\x00")
			}
			return ignoreGone(err)
		})
		if err != nil {
			return l, err
		}
	}
	l.logs = logs.String()
	return l, nil
}

// ignoreGone lets files come and go while a directory is walked.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
