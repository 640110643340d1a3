package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// file is a file on its way into an archive or an image.
type file struct {
	from  string // its path, or nothing where text is what it holds
	text  string
	to    string // its path in the archive; a folder's ends in /
	mode  int64
	owner int // of the user and the group with that number; 0 is root
}

// packProgram packs a program into an archive, and writes what it is made of.
func (r *Release) packProgram(p program) error {
	name := r.nameOf(p)
	files := []file{{from: p.path, to: "promwarp", mode: 0o755}}
	for _, f := range []string{"LICENSE", "README.md", "CHANGELOG.md", "examples/promwarp.yml", "deploy/man/promwarp.1"} {
		files = append(files, file{from: filepath.Join(r.Root, f), to: filepath.Base(f), mode: 0o644})
	}
	for _, f := range []string{"promwarp.bash", "_promwarp", "promwarp.fish"} {
		files = append(files, file{from: filepath.Join(r.Root, "cmd/promwarp/completions", f), to: "completions/" + f, mode: 0o644})
	}
	return errors.Join(r.archive(name+".tar.gz", name, files), r.components(name+".cdx.json", p.path))
}

// ownVersions are the lines of Chart.yaml that say which version the chart and promwarp are.
var ownVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// ownImage is the line of values.yaml that says where the image is.
var ownImage = regexp.MustCompile(`(?m)^(  repository): .*$`)

// chart packs the Helm chart, as one of this version and of the release's image.
func (r *Release) chart() error {
	files, err := r.folder("deploy/helm/promwarp")
	if err != nil {
		return err
	}
	for i, f := range files {
		line, value := ownVersions, r.Version
		switch f.to {
		case "Chart.yaml":
		case "values.yaml":
			line, value = ownImage, r.Image
		default:
			continue
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		files[i].from, files[i].text = "", line.ReplaceAllString(string(text), "$1: "+value)
	}
	return r.archive("promwarp-chart-"+r.Version+".tgz", "promwarp", files)
}

// mixin packs the mixin.
func (r *Release) mixin() error {
	files, err := r.folder("deploy/mixin")
	if err != nil {
		return err
	}
	return r.archive("promwarp-mixin-"+r.Version+".tgz", "mixin", files)
}

// folder is what is below a folder of the sources, without Go's files.
func (r *Release) folder(name string) (files []file, err error) {
	dir := filepath.Join(r.Root, name)
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		in, err := filepath.Rel(dir, path)
		files = append(files, file{from: path, to: filepath.ToSlash(in), mode: 0o644})
		return err
	})
	return files, err
}

// archive writes a compressed archive of files below one folder, in the order given.
func (r *Release) archive(name, folder string, files []file) (err error) {
	out, err := os.Create(filepath.Join(r.Out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := gzip.NewWriter(out)
	for i := range files {
		files[i].to = path.Join(folder, files[i].to)
	}
	return errors.Join(r.tar(z, files), z.Close())
}

// tar writes files, all of the time of the sources, as a tar archive.
func (r *Release) tar(out io.Writer, files []file) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := r.add(w, f); err != nil {
			return err
		}
	}
	return w.Close()
}

// add adds a file to a tar archive.
func (r *Release) add(w *tar.Writer, f file) error {
	h := tar.Header{
		Typeflag: tar.TypeReg, Name: f.to, Mode: f.mode, Size: int64(len(f.text)), Uid: f.owner, Gid: f.owner,
		ModTime: r.Time, Format: tar.FormatUSTAR,
	}
	if strings.HasSuffix(f.to, "/") {
		h.Typeflag = tar.TypeDir
	}
	var content io.Reader = strings.NewReader(f.text)
	if f.from != "" {
		in, err := os.Open(f.from)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		content, h.Size = in, info.Size()
	}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}
