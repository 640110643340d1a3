package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/sassoftware/go-rpmutils"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

const (
	commit = "0123456789012345678901234567890123456789"
	linux  = "promwarp-1.2.3-linux-amd64"
)

// sources are this repository's, with a change log that has a release.
func sources(t *testing.T) string {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range []string{"LICENSE", "README.md", "examples", "deploy", "cmd"} {
		require.NoError(t, os.Symlink(filepath.Join(root, f), filepath.Join(dir, f)))
	}
	const changes = "# Changes\n\n## 2.0.0, not released yet\n\nLater.\n\n## 1.2.3, 2023-11-14\n\n- one ([a](docs/a.md#b), [c](https://example.org/c))\n- two\n\n## 1.2.2, 2023-01-01\n\nEarlier.\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changes), 0o600))
	return dir
}

// standin builds a small program for Linux with that architecture, without what would compile Go's library again.
func standin(t *testing.T, arch string) string {
	program := filepath.Join(t.TempDir(), "promwarp")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./testdata/standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// run runs a program in a folder and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// What a fork calls its image, and who maintains its packages.
const imageName, maintainer = "registry.example:5000/team/warp", "A Team <team@example.org>"

// TestPack: what is packed twice is the same, and each file has in it what it is for.
func TestPack(t *testing.T) {
	amd64, arm64 := standin(t, "amd64"), standin(t, "arm64")
	programs := []program{
		{system: "linux", arch: "amd64", path: amd64}, {system: "linux", arch: "amd64", gpu: true, path: amd64},
		{system: "linux", arch: "arm64", path: arm64}, {system: "linux", arch: "arm64", gpu: true, path: arm64},
		{system: "darwin", arch: "arm64", path: arm64},
	}
	var outs []string
	for range 2 {
		r := &Release{Root: sources(t), Out: t.TempDir(), Work: t.TempDir(), Version: "1.2.3", Image: imageName, Maintainer: maintainer, Revision: commit, Time: time.Unix(1_700_000_000, 0).UTC()}
		require.NoError(t, r.pack(programs))
		outs = append(outs, r.Out)
	}
	out := outs[0]
	t.Run("same bytes", func(t *testing.T) { requireSame(t, out, outs[1]) })
	t.Run("archive", func(t *testing.T) { requireArchive(t, filepath.Join(out, linux+".tar.gz"), amd64) })
	t.Run("chart", func(t *testing.T) { requireChart(t, filepath.Join(out, "promwarp-chart-1.2.3.tgz")) })
	t.Run("Debian", func(t *testing.T) { requireDebian(t, filepath.Join(out, "promwarp_1.2.3-1_amd64.deb")) })
	t.Run("RPM", func(t *testing.T) { requireRPM(t, filepath.Join(out, "promwarp-1.2.3-1.aarch64.rpm")) })
	t.Run("image", func(t *testing.T) { requireImage(t, out, map[string]string{"amd64": amd64, "arm64": arm64}) })
	t.Run("components", func(t *testing.T) { requireComponents(t, filepath.Join(out, linux+".cdx.json"), amd64) })
	t.Run("notes", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(out, "promwarp-1.2.3-notes.md"))
		require.NoError(t, err)
		require.Equal(t, "- one ([a]("+repository+"/blob/v1.2.3/docs/a.md#b), [c](https://example.org/c))\n- two\n", string(text))
	})
	t.Run("provenance", func(t *testing.T) { requireProvenance(t, out) })
}

// files returns the names of all files below a folder.
func files(t *testing.T, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	}))
	return names
}

// requireSame: two folders have the same files, which are those of a release, with their checksums.
func requireSame(t *testing.T, a, b string) {
	names := files(t, a)
	require.Equal(t, names, files(t, b))
	var top []string
	for _, name := range names {
		one, err := os.ReadFile(filepath.Join(a, name))
		require.NoError(t, err)
		other, err := os.ReadFile(filepath.Join(b, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(one, other), name)
		if !strings.HasPrefix(name, "promwarp-1.2.3-oci/blobs/") {
			top = append(top, name)
		}
	}
	require.Equal(t, []string{
		"SHA256SUMS", "promwarp-1.2.3-1.aarch64.rpm", "promwarp-1.2.3-1.x86_64.rpm",
		"promwarp-1.2.3-darwin-arm64.cdx.json", "promwarp-1.2.3-darwin-arm64.tar.gz",
		"promwarp-1.2.3-image-amd64.tar", "promwarp-1.2.3-image-arm64.tar",
		linux + "-gpu.cdx.json", linux + "-gpu.tar.gz", linux + ".cdx.json", linux + ".tar.gz",
		"promwarp-1.2.3-linux-arm64-gpu.cdx.json", "promwarp-1.2.3-linux-arm64-gpu.tar.gz",
		"promwarp-1.2.3-linux-arm64.cdx.json", "promwarp-1.2.3-linux-arm64.tar.gz",
		"promwarp-1.2.3-notes.md", "promwarp-1.2.3-oci/index.json", "promwarp-1.2.3-oci/oci-layout", "promwarp-1.2.3-provenance.json",
		"promwarp-chart-1.2.3.tgz", "promwarp-mixin-1.2.3.tgz",
		"promwarp_1.2.3-1_amd64.deb", "promwarp_1.2.3-1_arm64.deb",
	}, top)
	require.Equal(t, len(names)-1, strings.Count(run(t, a, "sha256sum", "-c", "SHA256SUMS"), ": OK\n"))
}

// entry is a file of a tar archive.
type entry struct {
	tar.Header
	content []byte
}

// entries returns what a tar archive has, in its order and by name.
func entries(t *testing.T, in io.Reader) (names []string, all map[string]entry) {
	all = map[string]entry{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names, all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		names, all[h.Name] = append(names, h.Name), entry{*h, content}
	}
}

// unzipped is a compressed file's content.
func unzipped(t *testing.T, file string) io.Reader {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	return z
}

// requireArchive: the archive has what one needs by hand, of root and of the sources' time.
func requireArchive(t *testing.T, file, program string) {
	names, all := entries(t, unzipped(t, file))
	var want []string
	for _, f := range []string{
		"promwarp", "LICENSE", "README.md", "CHANGELOG.md", "promwarp.yml", "promwarp.1",
		"completions/promwarp.bash", "completions/_promwarp", "completions/promwarp.fish",
	} {
		want = append(want, linux+"/"+f)
	}
	require.Equal(t, want, names)
	for _, name := range names {
		h := all[name]
		mode := int64(0o644)
		if path.Base(name) == "promwarp" {
			mode = 0o755
		}
		require.Equal(t, mode, h.Mode, name)
		require.Equal(t, []any{0, 0, "", int64(1_700_000_000)}, []any{h.Uid, h.Gid, h.Uname, h.ModTime.Unix()}, name)
	}
	built, err := os.ReadFile(program)
	require.NoError(t, err)
	require.True(t, bytes.Equal(built, all[linux+"/promwarp"].content))
}

// requireChart: the chart has the release's version, and otherwise the files of the sources.
func requireChart(t *testing.T, file string) {
	names, all := entries(t, unzipped(t, file))
	require.Len(t, names, len(files(t, "../helm/promwarp")))
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join("../helm", name))
		require.NoError(t, err)
		switch name {
		case "promwarp/values.yaml":
			want := strings.Replace(string(source), "  repository: promwarp/promwarp\n", "  repository: "+imageName+"\n", 1)
			require.Equal(t, want, string(all[name].content))
			continue
		case "promwarp/Chart.yaml":
		default:
			require.Equal(t, string(source), string(all[name].content), name)
			continue
		}
		var chart, before map[string]any
		require.NoError(t, yaml.UnmarshalStrict(all[name].content, &chart))
		require.NoError(t, yaml.UnmarshalStrict(source, &before))
		before["version"], before["appVersion"] = "1.2.3", "1.2.3"
		require.Equal(t, before, chart)
	}
}

// requireDebian: dpkg reads the package, has in it what the unit and the scripts name, and lintian,
// where it is installed, finds no error.
func requireDebian(t *testing.T, deb string) {
	require.Equal(t, "promwarp 1.2.3-1 amd64 libc6, systemd\n", run(t, "", "dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture} ${Depends}\n", deb))
	dir := t.TempDir()
	require.Equal(t, maintainer, run(t, "", "dpkg-deb", "--show", "--showformat=${Maintainer}", deb))
	run(t, "", "dpkg-deb", "--raw-extract", deb, dir)
	for file, mode := range map[string]os.FileMode{
		"usr/bin/promwarp":                         0o755,
		"usr/lib/systemd/system/promwarp.service":  0o644,
		"usr/lib/sysusers.d/promwarp.conf":         0o644,
		"usr/lib/tmpfiles.d/promwarp.conf":         0o644,
		"usr/share/doc/promwarp/changelog.gz":      0o644,
		"usr/share/doc/promwarp/copyright":         0o644,
		"usr/share/doc/promwarp/promwarp-gpu.conf": 0o644,
		"etc/promwarp/promwarp.yml":                0o644, // what tmpfiles.d makes 0640

		"usr/share/bash-completion/completions/promwarp":    0o644,
		"usr/share/zsh/vendor-completions/_promwarp":        0o644,
		"usr/share/fish/vendor_completions.d/promwarp.fish": 0o644,
		"usr/share/man/man1/promwarp.1.gz":                  0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), file)
	}
	conffiles, err := os.ReadFile(filepath.Join(dir, "DEBIAN/conffiles"))
	require.NoError(t, err)
	require.Equal(t, "/etc/promwarp/promwarp.yml\n", string(conffiles))
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		run(t, "", "sh", "-n", filepath.Join(dir, "DEBIAN", script))
	}
	log, err := io.ReadAll(unzipped(t, filepath.Join(dir, "usr/share/doc/promwarp/changelog.Debian.gz")))
	require.NoError(t, err)
	require.Regexp(t, `^promwarp \(1\.2\.3-1\) stable; urgency=low\n(.*\n)+ -- A Team <team@example\.org>  Tue, 14 Nov 2023 22:13:20 \+0000\n$`, string(log))
	if _, err := exec.LookPath("lintian"); err != nil {
		t.Log("not checked by lintian, which is not installed")
		return
	}
	// The stand-in is static, as promwarp in a package is not.
	require.NotRegexp(t, `(?m)^[EW]: `, run(t, "", "lintian", "--allow-root", "--suppress-tags=statically-linked-binary", deb))
}

// requireRPM: the package names what it is and needs, marks what rpm treats differently, has the
// scripts of the Debian package, and rpmlint, where it is installed, finds no error.
func requireRPM(t *testing.T, file string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	rpm, err := rpmutils.ReadRpm(f)
	require.NoError(t, err)
	is, err := rpm.Header.GetNEVRA()
	require.NoError(t, err)
	require.Equal(t, "promwarp-0:1.2.3-1.aarch64.rpm", is.String())
	needs, err := rpm.Header.GetStrings(rpmutils.REQUIRENAME)
	require.NoError(t, err)
	require.Subset(t, needs, []string{"glibc", "systemd"})
	host, err := rpm.Header.GetString(rpmutils.BUILDHOST)
	require.NoError(t, err)
	require.Equal(t, "localhost", host)
	const config, doc, noReplace, license = 1, 2, 16, 128 // of rpm's file flags
	want := map[string][2]int{
		"/etc/promwarp/promwarp.yml":                         {0o644, config | noReplace},
		"/usr/bin/promwarp":                                  {0o755, 0},
		"/usr/lib/systemd/system/promwarp.service":           {0o644, 0},
		"/usr/lib/sysusers.d/promwarp.conf":                  {0o644, 0},
		"/usr/lib/tmpfiles.d/promwarp.conf":                  {0o644, 0},
		"/usr/share/bash-completion/completions/promwarp":    {0o644, 0},
		"/usr/share/doc/promwarp/changelog.gz":               {0o644, doc},
		"/usr/share/doc/promwarp/promwarp-gpu.conf":          {0o644, doc},
		"/usr/share/fish/vendor_completions.d/promwarp.fish": {0o644, 0},
		"/usr/share/licenses/promwarp/LICENSE":               {0o644, license},
		"/usr/share/man/man1/promwarp.1.gz":                  {0o644, doc},
		"/usr/share/zsh/site-functions/_promwarp":            {0o644, 0},
	}
	got := map[string][2]int{}
	all, err := rpm.Header.GetFiles()
	require.NoError(t, err)
	for _, f := range all {
		got[f.Name()] = [2]int{f.Mode() & 0o7777, f.Flags()}
		require.Equal(t, []any{"root", "root", 1_700_000_000}, []any{f.UserName(), f.GroupName(), f.Mtime()}, f.Name())
	}
	require.Equal(t, want, got)
	for tag, name := range map[int]string{rpmutils.POSTIN: "postinst", rpmutils.PREUN: "prerm", rpmutils.POSTUN: "postrm"} {
		script, err := rpm.Header.GetString(tag)
		require.NoError(t, err)
		source, err := os.ReadFile("../packages/" + name)
		require.NoError(t, err)
		require.Equal(t, string(source), script)
	}
	if _, err := exec.LookPath("rpmlint"); err != nil {
		t.Log("not checked by rpmlint, which is not installed")
		return
	}
	// It unpacks a package by cpio, at its absolute paths.
	cpio, err := exec.LookPath("cpio")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cpio"), []byte("#!/bin/sh\nexec "+cpio+" --no-absolute-filenames \"$@\"\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	// The stand-in is static, as promwarp in a package is not.
	filters, err := os.ReadFile("../packages/rpmlint.toml")
	require.NoError(t, err)
	more := strings.Replace(string(filters), "[\n", "[\n  \"statically-linked-binary\",\n", 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rpmlint.toml"), []byte(more), 0o600))
	said := run(t, "", "rpmlint", "-c", filepath.Join(dir, "rpmlint.toml"), file)
	require.NotRegexp(t, `(?m)^promwarp\S*: [EW]: `, said)
	require.Contains(t, said, " 0 errors, 0 warnings")
}

// TestScripts: the packages' scripts make the user and the folders when Debian or RPM installs, and not
// when they remove.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"systemd-sysusers", "systemd-tmpfiles", "systemctl", "rm"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho $(basename $0) \"$@\"\n"), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const made, removed = "systemd-sysusers promwarp.conf\nsystemd-tmpfiles --create promwarp.conf\n", "rm -rf /var/lib/promwarp /var/cache/promwarp\n"
	for _, c := range [][3]string{
		{"postinst", "configure", made}, {"postinst", "1", made}, {"postinst", "2", made}, {"postinst", "abort-upgrade", ""},
		{"prerm", "upgrade", ""}, {"prerm", "1", ""}, {"prerm", "remove", ""}, {"prerm", "0", ""},
		{"postrm", "purge", removed}, {"postrm", "remove", ""}, {"postrm", "0", ""},
	} {
		var text strings.Builder
		for line := range strings.Lines(run(t, "", "sh", "../packages/"+c[0], c[1])) {
			if !strings.HasPrefix(line, "systemctl ") { // only where systemd runs
				text.WriteString(line)
			}
		}
		require.Equal(t, c[2], text.String(), "%s %s", c[0], c[1])
	}
}

// requireImage: the layout's digests are right, each platform has its program, and what docker
// load reads is the same images.
func requireImage(t *testing.T, out string, programs map[string]string) {
	outer, err := layout.ImageIndexFromPath(filepath.Join(out, "promwarp-1.2.3-oci"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(outer))
	top, err := outer.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	require.Equal(t, "1.2.3", top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, len(programs))
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		require.Equal(t, "linux", m.Platform.OS)
		require.Contains(t, programs, m.Platform.Architecture)
		requireContents(t, image, programs[m.Platform.Architecture])

		tag, err := name.NewTag(imageName + ":1.2.3")
		require.NoError(t, err)
		loaded, err := tarball.ImageFromPath(filepath.Join(out, "promwarp-1.2.3-image-"+m.Platform.Architecture+".tar"), &tag)
		require.NoError(t, err)
		require.NoError(t, validate.Image(loaded))
		a, err := image.ConfigName()
		require.NoError(t, err)
		b, err := loaded.ConfigName()
		require.NoError(t, err)
		require.Equal(t, a, b, "the identifier of the image")
	}
}

// requireContents: an image runs its program as a user that it has, over TLS, and is asked for its health
// as the Dockerfile's image is.
func requireContents(t *testing.T, image v1.Image, program string) {
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/promwarp"}, config.Config.Entrypoint)
	require.Equal(t, commit, config.Config.Labels["org.opencontainers.image.revision"])
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			require.Equal(t, s.Value, config.Architecture)
		}
	}
	extracted := mutate.Extract(image)
	defer extracted.Close()
	_, all := entries(t, extracted)
	built, err := os.ReadFile(program)
	require.NoError(t, err)
	require.True(t, bytes.Equal(built, all["usr/bin/promwarp"].content))
	require.Equal(t, int64(0o755), all["usr/bin/promwarp"].Mode)
	user, _, _ := strings.Cut(config.Config.User, ":")
	require.Contains(t, string(all["etc/passwd"].content), ":x:"+user+":"+user+":")
	for volume := range config.Config.Volumes {
		folder, ok := all[strings.TrimPrefix(volume, "/")]
		require.True(t, ok, volume)
		require.Equal(t, user, fmt.Sprint(folder.Uid), "what is mounted there is the user's")
	}
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(all["etc/ssl/certs/ca-certificates.crt"].content))
	require.Greater(t, strings.Count(string(all["etc/ssl/certs/ca-certificates.crt"].content), "BEGIN CERTIFICATE"), 100)

	dockerfile, err := os.ReadFile("../docker/Dockerfile")
	require.NoError(t, err)
	h := config.Config.Healthcheck
	require.Contains(t, string(dockerfile), fmt.Sprintf("--interval=%.0fs --timeout=%.0fs --start-period=%.0fm --retries=%d CMD [\"%s\"]",
		h.Interval.Seconds(), h.Timeout.Seconds(), h.StartPeriod.Minutes(), h.Retries, strings.Join(h.Test[1:], `", "`)))
	require.Contains(t, string(dockerfile), "\nUSER "+config.Config.User+"\n")
	require.Contains(t, string(dockerfile), `CMD ["`+strings.Join(config.Config.Cmd, `", "`)+`"]`)
}

// requireComponents: the document has the modules that are linked into the program, and no others.
func requireComponents(t *testing.T, file, program string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	require.Len(t, *bom.Components, len(info.Deps)+1)
	for i, m := range info.Deps {
		require.Equal(t, m.Path+" "+m.Version, (*bom.Components)[i+1].Name+" "+(*bom.Components)[i+1].Version)
	}
	require.Equal(t, "std", (*bom.Components)[0].Name)
	require.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(*bom.Components))
}

// requireProvenance: the statement is one, names the commit, and has the checksums of all files.
func requireProvenance(t *testing.T, out string) {
	const file = "promwarp-1.2.3-provenance.json"
	text, err := os.ReadFile(filepath.Join(out, file))
	require.NoError(t, err)
	var statement intoto.Statement
	require.NoError(t, protojson.Unmarshal(text, &statement))
	require.NoError(t, statement.Validate())
	predicate, err := protojson.Marshal(statement.Predicate)
	require.NoError(t, err)
	var made slsa.Provenance
	require.NoError(t, protojson.Unmarshal(predicate, &made))
	require.NoError(t, made.Validate())
	require.Equal(t, commit, made.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	require.NoError(t, err)
	require.Len(t, statement.Subject, strings.Count(string(sums), "\n")-1)
	for _, s := range statement.Subject {
		require.Contains(t, string(sums), s.Digest["sha256"]+"  "+s.Name+"\n")
	}
}

// TestRefused: a release that could not be published is refused before anything is built.
func TestRefused(t *testing.T) {
	for want, version := range map[string]string{
		`CHANGELOG.md has no part about 1.3.0: begin one with the line "## 1.3.0, YYYY-MM-DD"`: "1.3.0",
		`"v1.2.3" is no version of a release: write one as 1.2.3`:                              "v1.2.3",
	} {
		out := filepath.Join(t.TempDir(), "release")
		r := &Release{Root: sources(t), Out: out, Version: version, Image: imageName, Maintainer: maintainer, Revision: commit}
		require.EqualError(t, r.make([]string{"linux/amd64"}), want)
		require.NoDirExists(t, out)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	r := &Release{Root: sources(t), Out: t.TempDir(), Version: "1.2.3", Image: imageName, Maintainer: maintainer, Revision: commit}
	require.ErrorContains(t, r.make([]string{"linux"}), "write one as linux/amd64")
	r.Maintainer = "here@example.org"
	require.ErrorContains(t, r.make([]string{"linux/amd64"}), `-maintainer: "here@example.org" is not written as Name <address>`)
	r.Image = "a b"
	require.ErrorContains(t, r.make([]string{"linux/amd64"}), "-image: ")
}

// TestNames: the chart of the sources and the pages name the image that the Makefile does.
func TestNames(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(makefile), "\nIMAGE      := $(or $(IMAGE),")
	require.True(t, found)
	name, _, _ := strings.Cut(rest, ")")
	for file, want := range map[string]string{
		"../helm/promwarp/values.yaml": "\n  repository: " + name + "\n",
		"../README.md":                 "docker run --network=host " + name + " serve",
		"../../README.md":              "docker run --network=host " + name + " serve",
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), want, file)
	}
}

// TestVersions: the chart is of the version that the sources are.
func TestVersions(t *testing.T) {
	version, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)
	text, err := os.ReadFile("../helm/promwarp/Chart.yaml")
	require.NoError(t, err)
	var chart struct{ Version, AppVersion string }
	require.NoError(t, yaml.Unmarshal(text, &chart))
	require.Equal(t, strings.TrimSpace(string(version)), chart.Version)
	require.Equal(t, chart.Version, chart.AppVersion)
	r := Release{Root: "../..", Version: chart.Version}
	_, _, err = r.changes()
	require.NoError(t, err)
}
