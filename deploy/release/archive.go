package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
)

// file is a file on its way into an archive.
type file struct {
	from string // its path
	to   string // its path in the archive
	mode int64
}

// archive writes a compressed archive of files below one folder, in the order given.
func (r *Release) archive(name, folder string, files []file) (err error) {
	out, err := os.Create(filepath.Join(r.Out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := r.add(w, folder, f); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

// add adds a file to an archive, of root and of the time of the sources.
func (r *Release) add(w *tar.Writer, folder string, f file) error {
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, filepath.ToSlash(f.to)), Mode: f.mode, Size: info.Size(), ModTime: r.Time, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}
