package tsdbdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
)

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
