package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// killLoop kills a promwarp at moments of chance while clients ask, and starts it again.
func killLoop(ctx context.Context, w *workshop) (v verdict) {
	r := w.env.random(3)
	for i := range w.rounds {
		p, s, err := w.begin()
		if err != nil {
			v.breaks("start %d: %v", i, err)
			return v
		}
		asking, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			together(asking, 4, 1<<20, func(ctx context.Context, n int) answer {
				return s.post(ctx, "/api/v1/query_range", w.env.at(time.Duration(n)*time.Hour).over(restartQueries[n%len(restartQueries)], time.Minute))
			})
		}()
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		p.Kill()
		cancel()
		<-done
		if i%3 == 2 {
			w.checked(ctx, &v, fmt.Sprintf("after kill %d", i+1))
		}
	}
	m := w.checked(ctx, &v, "at last")
	v.figures = fmt.Sprintf("killed %d times; %.0f tiles came from disk at last, %.0f bad files", w.rounds, m["promwarp_cache_disk_restored_tiles_total"], m["promwarp_cache_disk_bad_files_total"])
	return v
}

// breakFiles has each file of a filled directory broken in one way.
func breakFiles(one func(w *workshop, path string) error) func(ctx context.Context, w *workshop) verdict {
	return func(ctx context.Context, w *workshop) (v verdict) {
		files := w.filled(ctx, &v)
		for _, path := range files {
			if err := one(w, path); err != nil && !os.IsNotExist(err) {
				v.breaks("%v", err)
			}
		}
		m := w.checked(ctx, &v, "with broken files")
		v.figures = fmt.Sprintf("%d files; %.0f were found bad", len(files), m["promwarp_cache_disk_bad_files_total"])
		return v
	}
}

func truncate(w *workshop, path string) error {
	i, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, w.env.random(uint64(i.Size())).Int64N(i.Size()))
}

// change has a file's bytes changed in place.
func change(path string, how func(b []byte)) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	how(b)
	return os.WriteFile(path, b, 0o600)
}

func flipBits(w *workshop, path string) error {
	r := w.env.random(uint64(len(path)))
	return change(path, func(b []byte) {
		for range 1 + len(b)/5000 {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
	})
}

func zeroMiddle(_ *workshop, path string) error {
	return change(path, func(b []byte) { clear(b[len(b)/3 : len(b)/2]) })
}

func lengthen(_ *workshop, path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, endless{}, 100_000)
	return errors.Join(err, f.Close())
}

// foreignFiles puts files and folders of other programs beside and into the place of its own.
func foreignFiles(ctx context.Context, w *workshop) (v verdict) {
	files := w.filled(ctx, &v)
	for i, path := range files {
		var err error
		switch i % 3 {
		case 0:
			err = os.WriteFile(path, []byte("%PDF-1.7\nnot a cache"), 0o600)
		case 1:
			err = errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "a folder"), 0o700))
		default:
			err = errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		}
		if err != nil {
			v.breaks("%v", err)
		}
	}
	dirs := map[string]bool{w.disk: true}
	for _, path := range files {
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		for _, name := range []string{".hidden", "tmp", "a name with spaces", "0", "..data", "\xff\xfe"} {
			_ = os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600)
		}
		_ = os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)
	}
	m := w.checked(ctx, &v, "with foreign files")
	v.figures = fmt.Sprintf("%d files; %.0f were found bad", len(files), m["promwarp_cache_disk_bad_files_total"])
	return v
}

// swapFiles gives each file another's name: each is whole, and says what another should.
func swapFiles(ctx context.Context, w *workshop) (v verdict) {
	files := w.filled(ctx, &v)
	for i := 0; i+1 < len(files); i += 2 {
		a, b := files[i], files[i+1]
		if err := errors.Join(os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b)); err != nil {
			v.breaks("%v", err)
		}
	}
	m := w.checked(ctx, &v, "with swapped files")
	v.figures = fmt.Sprintf("%d files; %.0f were found bad", len(files), m["promwarp_cache_disk_bad_files_total"])
	return v
}

// mounted runs what with a file system of its own, in memory, as the cache's directory. That takes
// root.
func (w *workshop) mounted(size string, what func() verdict) verdict {
	if err := os.MkdirAll(w.disk, 0o700); err != nil {
		return verdict{broken: []string{err.Error()}}
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", w.disk).CombinedOutput(); err != nil {
		return verdict{skipped: fmt.Sprintf("NOT TESTED: a file system of its own cannot be mounted: %s %v", out, err)}
	}
	defer func() { _ = exec.Command("umount", "-l", w.disk).Run() }()
	return what()
}

func fullDisk(ctx context.Context, w *workshop) verdict {
	return w.mounted("64k", func() (v verdict) {
		p, s, err := w.begin()
		if err != nil {
			v.breaks("it does not start: %v", err)
			return v
		}
		w.right(ctx, s, &v, "on a full disk")
		failing := 0.0
		for range 50 {
			if m, err := s.metrics(ctx); err == nil && m["promwarp_cache_disk_failing"] == 1 {
				failing = 1
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.right(ctx, s, &v, "on a full disk, again")
		p.Kill()
		w.checked(ctx, &v, "after it")
		v.figures = fmt.Sprintf("promwarp_cache_disk_failing %.0f", failing)
		if failing == 0 {
			v.breaks("promwarp_cache_disk_failing is 0 on a full disk")
		}
		return v
	})
}

func readOnlyDisk(ctx context.Context, w *workshop) verdict {
	return w.mounted("256m", func() (v verdict) {
		files := w.filled(ctx, &v)
		if out, err := exec.Command("mount", "-o", "remount,ro", w.disk).CombinedOutput(); err != nil {
			return verdict{skipped: fmt.Sprintf("NOT TESTED: it cannot be made read-only: %s %v", out, err)}
		}
		m := w.checked(ctx, &v, "on a read-only disk")
		v.figures = fmt.Sprintf("%d files; promwarp_cache_disk_failing %.0f", len(files), m["promwarp_cache_disk_failing"])
		return v
	})
}
