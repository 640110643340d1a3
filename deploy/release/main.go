// Command release makes what a release of promwarp offers: programs in archives, Debian and RPM
// packages, an image, the chart, the mixin, and beside them what programs are made of, notes,
// provenance and checksums. The same sources give the same bytes, in any folder: paths, times and
// owners of files do not depend on who builds. It runs in deploy/; read Release.make first.
//
// For Linux there are two programs: a static one, which runs everywhere and has no GPU's part, in
// an archive and in the image, and one that loads NVIDIA's driver by glibc, in an archive whose name
// ends in -gpu and in packages.
package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"log"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// repository is where the sources are published.
const repository = "https://github.com/promwarp/promwarp"

func main() {
	log.SetFlags(0)
	r := Release{Root: ".."}
	flag.StringVar(&r.Out, "out", "../.build/release", "the folder that files are written to; it is emptied before")
	flag.StringVar(&r.Version, "version", "", "the release's version, by default that of the file VERSION")
	flag.StringVar(&r.Image, "image", "", "what the image is called, also by the chart; the Makefile's IMAGE")
	flag.StringVar(&r.Maintainer, "maintainer", "", "who maintains the packages, as Name <address>; the Makefile's MAINTAINER")
	flag.StringVar(&r.Revision, "revision", "", "the commit of the sources, by default the one that git names")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/arm64", "what to build for")
	flag.Parse()
	if err := r.make(strings.Split(*platforms, ",")); err != nil {
		log.Fatalf("release: %v", err)
	}
}

// Release is one release of the sources in Root.
type Release struct {
	Root       string    // of the repository
	Out        string    // where files are written
	Work       string    // a folder for what is not released itself
	Version    string    // such as 0.1.0
	Image      string    // what the image is called once it is loaded, and where the chart finds it
	Maintainer string    // of the packages: Name <address>
	Revision   string    // the commit, with -dirty behind it where files differ from it
	Time       time.Time // of all files
}

// program is promwarp, built for a platform.
type program struct {
	system, arch string
	gpu          bool   // it has the GPU's part, which needs glibc
	path         string // of the file
}

// make makes all files.
func (r *Release) make(platforms []string) (err error) {
	start := time.Now()
	if err := r.identify(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "promwarp %s, commit %s of %s\n", r.Version, r.Revision, r.Time.Format(time.RFC3339))
	if err := os.RemoveAll(r.Out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	if r.Work, err = os.MkdirTemp("", "promwarp-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.Work)
	var programs []program
	for _, platform := range platforms {
		system, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("%q is no platform: write one as linux/amd64", platform)
		}
		programs = append(programs, program{system: system, arch: arch, path: filepath.Join(r.Work, system+"-"+arch, "promwarp")})
		if system == "linux" {
			programs = append(programs, program{system: system, arch: arch, gpu: true, path: filepath.Join(r.Work, system+"-"+arch+"-gpu", "promwarp")})
		}
	}
	for _, p := range programs {
		if err := step("go build, "+r.nameOf(p), func() error { return r.build(p) }); err != nil {
			return err
		}
	}
	if err := r.pack(programs); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "all of it is in %s, after %.1f s\n", r.Out, time.Since(start).Seconds())
	return nil
}

// pack packs programs that were built, and what goes with them.
func (r *Release) pack(programs []program) error {
	for _, p := range programs {
		if err := step("archive and components, "+r.nameOf(p), func() error { return r.packProgram(p) }); err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			if !p.gpu {
				continue
			}
			if err := step(format+" package, "+p.arch, func() error { return r.packageFor(format, p) }); err != nil {
				return err
			}
		}
	}
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"image", func() error { return r.image(programs) }},
		{"chart", r.chart},
		{"mixin", r.mixin},
		{"notes", r.notes},
		{"provenance", r.provenance},
		{"checksums", r.sums},
	} {
		if err := step(s.what, s.do); err != nil {
			return err
		}
	}
	return nil
}

// step does one step of a release, and prints its name before and its time after.
func step(name string, do func() error) error {
	fmt.Fprintf(os.Stderr, "%-60s", name)
	start := time.Now()
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "failed")
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(os.Stderr, "%6.1f s\n", time.Since(start).Seconds())
	return nil
}

// versions are versions that all kinds of packages and the chart take.
var versions = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// identify finds out what is released: version, commit and time, where they were not given.
func (r *Release) identify() error {
	if r.Version == "" {
		text, err := os.ReadFile(filepath.Join(r.Root, "VERSION"))
		if err != nil {
			return err
		}
		r.Version = strings.TrimSpace(string(text))
	}
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("%q is no version of a release: write one as 1.2.3", r.Version)
	}
	if _, err := name.NewRepository(r.Image); err != nil {
		return fmt.Errorf("-image: %w", err)
	}
	if address, err := mail.ParseAddress(r.Maintainer); err != nil || address.Name == "" {
		return fmt.Errorf("-maintainer: %q is not written as Name <address> (%v)", r.Maintainer, err)
	}
	heading, _, err := r.changes() // before minutes of building
	if err != nil {
		return err
	}
	if strings.Contains(heading, "not released") {
		fmt.Fprintf(os.Stderr, "CHANGELOG.md says %q: put the date there before this is published\n", heading)
	}
	if r.Revision == "" {
		out, err := exec.Command("git", "-C", r.Root, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty").Output()
		if err != nil {
			return fmt.Errorf("the commit of the sources is not known: give -revision, or build in a clone: %w", err)
		}
		r.Revision = strings.TrimSpace(string(out))
	}
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.Command("git", "-C", r.Root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return fmt.Errorf("the time of the sources is not known: set SOURCE_DATE_EPOCH, or build in a clone: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.Time = time.Unix(seconds, 0).UTC()
	return nil
}

// nameOf is what files of a program are named by.
func (r *Release) nameOf(p program) string {
	name := fmt.Sprintf("promwarp-%s-%s-%s", r.Version, p.system, p.arch)
	if p.gpu {
		name += "-gpu"
	}
	return name
}

// build builds a program.
func (r *Release) build(p program) error {
	const variables = " -X github.com/prometheus/common/version."
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", p.path, "-ldflags", "-s -w -buildid=" +
		variables + "Version=" + r.Version + variables + "Revision=" + r.Revision + variables + "BuildDate=" + r.Time.Format(time.RFC3339)}
	if !p.gpu {
		args = append(args, "-tags=nogpu")
	}
	cmd := exec.Command("go", append(args, "./cmd/promwarp")...)
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if p.gpu || p.system != "linux" {
		return nil
	}
	file, err := elf.Open(p.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		return fmt.Errorf("the program is not static: it loads %q (%v)", libraries, err)
	}
	return nil
}
