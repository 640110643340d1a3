package main

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
)

// debian writes the Debian package of a program, as debian/nfpm.yaml describes it.
func (r *Release) debian(arch, program string) (err error) {
	manual, err := r.compressed("deploy/man/promwarp.1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(manual)) }()
	values := map[string]string{"VERSION": r.Version, "ARCH": arch, "PROGRAM": program, "ROOT": r.Root, "MANUAL": manual}
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(r.Root, "deploy/debian/nfpm.yaml"), func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	scripts := filepath.Join(r.Root, "deploy/debian")
	info.Scripts = nfpm.Scripts{PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"), PostRemove: filepath.Join(scripts, "postrm")}
	info.MTime = r.Time
	for _, c := range info.Contents {
		c.FileInfo.MTime = r.Time
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.Out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return packager.Package(info, out)
}

// compressed writes a file of the sources, compressed, to a temporary file, as manuals are installed.
func (r *Release) compressed(name string) (file string, err error) {
	text, err := os.ReadFile(filepath.Join(r.Root, name))
	if err != nil {
		return "", err
	}
	out, err := os.CreateTemp("", "promwarp-release-*.gz")
	if err != nil {
		return "", err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression) // without a name and a time in its header
	if err == nil {
		_, err = z.Write(text)
		err = errors.Join(err, z.Close())
	}
	return out.Name(), errors.Join(err, out.Close())
}
