// Command release builds what a release of promwarp consists of: for each platform the program in
// an archive and what it is made of as a CycloneDX document, Debian packages, the chart, the mixin,
// and checksums of all. The same sources give the same bytes, in any folder: paths, times and
// owners of files do not depend on who builds. It runs in deploy/; read Release first.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
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

// debian writes the Debian package of a program, as debian/nfpm.yaml describes it.
func (r *Release) debian(arch, program string) (err error) {
	manual := program + ".1.gz"
	if err := r.compressed("deploy/man/promwarp.1", manual); err != nil {
		return err
	}
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

// compressed writes a file of the sources, compressed, to another, as manuals are installed.
func (r *Release) compressed(name, to string) error {
	text, err := os.ReadFile(filepath.Join(r.Root, name))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // without a name and a time in its header
	if err != nil {
		return err
	}
	_, err = z.Write(text)
	return errors.Join(err, z.Close(), os.WriteFile(to, b.Bytes(), 0o600))
}

// components writes what a program is made of as a CycloneDX document: the modules whose packages
// are linked into it, as the program itself says, and Go's library.
func (r *Release) components(name, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	main := component(&debug.Module{Path: info.Main.Path, Version: "v" + r.Version})
	main.Type = cyclonedx.ComponentTypeApplication
	all := []cyclonedx.Component{component(&debug.Module{Path: "std", Version: strings.Replace(info.GoVersion, "go", "v", 1)})}
	uses := []string{all[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced by %s: a release is built of modules as they were published", m.Path, m.Replace.Path)
		}
		c := component(m)
		// As go.sum has it: of the module's files and their names.
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: m.Sum}}
		all, uses = append(all, c), append(uses, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.Time.Format(time.RFC3339), Component: &main}
	bom.Components = &all
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	out, err := os.Create(filepath.Join(r.Out, name))
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// component is a module as a component.
func component(m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: url, PackageURL: url}
}
