// Command release builds what a release of promwarp consists of: for each platform the program in
// an archive and what it is made of as a CycloneDX document, Debian packages, the chart, the mixin,
// and checksums of all. The same sources give the same bytes, in any folder: paths, times and
// owners of files do not depend on who builds. It runs in deploy/; read Release first.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "../.build/release", "the folder that files are written to; it is emptied before")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/arm64", "what to build for")
	flag.Parse()
	r := Release{Root: "..", Out: *out}
	if err := r.make(strings.Split(*platforms, ",")); err != nil {
		log.Fatalf("release: %v", err)
	}
}

// Release is one release of the sources in Root.
type Release struct {
	Root    string    // of the repository
	Out     string    // where files are written
	Version string    // such as 0.1.0
	Time    time.Time // of all files
}

// make makes all files.
func (r *Release) make(platforms []string) error {
	text, err := os.ReadFile(filepath.Join(r.Root, "VERSION"))
	if err != nil {
		return err
	}
	r.Version = strings.TrimSpace(string(text))
	if r.Time, err = r.sourceTime(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.Out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "promwarp-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range platforms {
		system, arch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("%q is no platform: write one as linux/amd64", p)
		}
		program := filepath.Join(dir, system+"-"+arch, "promwarp")
		if err := r.build(system, arch, program); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if err := r.pack(system, arch, program); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := r.packRest(); err != nil {
		return err
	}
	return r.sums()
}

// sourceTime is SOURCE_DATE_EPOCH or, without it, when the sources were committed.
func (r *Release) sourceTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.Command("git", "-C", r.Root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the sources is not known: set SOURCE_DATE_EPOCH, or build in a clone: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(n, 0).UTC(), nil
}

// build builds the program for a platform.
func (r *Release) build(system, arch, program string) error {
	log.Printf("building for %s/%s", system, arch)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X github.com/prometheus/common/version.Version="+r.Version,
		"-o", program, "./cmd/promwarp")
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// pack packs a program that was built for a platform.
func (r *Release) pack(system, arch, program string) error {
	name := fmt.Sprintf("promwarp-%s-%s-%s", r.Version, system, arch)
	files := []file{{program, "promwarp", 0o755}}
	for _, f := range []string{"LICENSE", "README.md", "CHANGELOG.md", "examples/promwarp.yml", "deploy/man/promwarp.1"} {
		files = append(files, file{filepath.Join(r.Root, f), filepath.Base(f), 0o644})
	}
	for _, f := range []string{"promwarp.bash", "_promwarp", "promwarp.fish"} {
		files = append(files, file{filepath.Join(r.Root, "cmd/promwarp/completions", f), "completions/" + f, 0o644})
	}
	if err := r.archive(name+".tar.gz", name, files); err != nil {
		return err
	}
	if err := r.components(name+".cdx.json", program); err != nil {
		return err
	}
	if system != "linux" {
		return nil
	}
	return r.debian(arch, program)
}

// packRest packs what is the same for all platforms.
func (r *Release) packRest() error {
	for dir, name := range map[string]string{"helm/promwarp": "promwarp-chart-", "mixin": "promwarp-mixin-"} {
		var files []file
		err := filepath.WalkDir(filepath.Join(r.Root, "deploy", dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			in, err := filepath.Rel(filepath.Join(r.Root, "deploy", dir), path)
			files = append(files, file{path, in, 0o644})
			return err
		})
		if err != nil {
			return err
		}
		if err := r.archive(name+r.Version+".tgz", filepath.Base(dir), files); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the checksums of all files, as sha256sum -c reads them.
func (r *Release) sums() error {
	files, err := os.ReadDir(r.Out) // in the order of their names
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(r.Out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), f.Name())
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
