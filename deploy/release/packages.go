package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// packageFor writes the package of a program, deb or rpm, as packages/nfpm.yaml describes it.
func (r *Release) packageFor(format string, p program) (err error) {
	values := map[string]string{"VERSION": r.Version, "MAINTAINER": r.Maintainer, "ARCH": p.arch, "PROGRAM": p.path, "ROOT": r.Root, "WORK": r.Work}
	for from, to := range map[string]string{"deploy/man/promwarp.1": "promwarp.1.gz", "CHANGELOG.md": "changelog.gz"} {
		if err := compress(filepath.Join(r.Root, from), filepath.Join(r.Work, to)); err != nil {
			return err
		}
	}
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(r.Root, "deploy/packages/nfpm.yaml"), func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	if format == "deb" {
		info.License = "" // Debian's control files have no such field; copyright has it
	}
	info.Changelog = filepath.Join(r.Work, "changelog.yaml")
	entry := fmt.Sprintf("- semver: %s-%s\n  date: %s\n  packager: %s\n  deb: {urgency: low, distributions: [stable]}\n  changes: [{note: \"what changed: %s/blob/v%[1]s/CHANGELOG.md\"}]\n",
		r.Version, info.Release, r.Time.Format(time.RFC3339), info.Maintainer, repository)
	if err := os.WriteFile(info.Changelog, []byte(entry), 0o600); err != nil {
		return err
	}
	scripts := filepath.Join(r.Root, "deploy/packages")
	info.Scripts = nfpm.Scripts{PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"), PostRemove: filepath.Join(scripts, "postrm")}
	info.MTime = r.Time
	for _, c := range info.Contents {
		c.FileInfo.MTime = r.Time
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
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

// compress writes a file, compressed, to another, as manuals are installed.
func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // without a name and a time in its header
	if err != nil {
		return err
	}
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o600)
}
