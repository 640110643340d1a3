package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
)

// debian writes the Debian package of a program, as debian/nfpm.yaml describes it.
func (r *Release) debian(arch, program string) (err error) {
	values := map[string]string{"VERSION": r.Version, "ARCH": arch, "PROGRAM": program, "ROOT": r.Root}
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
