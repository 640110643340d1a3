package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// packed is a release in a new folder, with the test for a program.
func packed(t *testing.T) *Release {
	program, err := os.Executable()
	require.NoError(t, err)
	r := &Release{Root: "../..", Out: t.TempDir(), Version: "1.2.3", Time: time.Unix(1_700_000_000, 0).UTC()}
	require.NoError(t, r.pack("linux", "amd64", program))
	require.NoError(t, r.packRest())
	require.NoError(t, r.sums())
	return r
}

// run runs a program in a folder and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestPacked: what is packed twice is the same, and is what it is to be.
func TestPacked(t *testing.T) {
	a, b := packed(t), packed(t)
	t.Run("same bytes", func(t *testing.T) { requireSame(t, a.Out, b.Out) })
	t.Run("archive", func(t *testing.T) { requireArchive(t, a.Out) })
	t.Run("Debian", func(t *testing.T) { requireDebian(t, filepath.Join(a.Out, "promwarp_1.2.3_amd64.deb")) })
	t.Run("components", func(t *testing.T) { requireComponents(t, filepath.Join(a.Out, "promwarp-1.2.3-linux-amd64.cdx.json")) })
}

// requireSame: two folders have the same files, whose checksums are right.
func requireSame(t *testing.T, a, b string) {
	files, err := os.ReadDir(a)
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		one, err := os.ReadFile(filepath.Join(a, f.Name()))
		require.NoError(t, err)
		other, err := os.ReadFile(filepath.Join(b, f.Name()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(one, other), f.Name())
	}
	require.Equal(t, []string{
		"SHA256SUMS", "promwarp-1.2.3-linux-amd64.cdx.json", "promwarp-1.2.3-linux-amd64.tar.gz",
		"promwarp-chart-1.2.3.tgz", "promwarp-mixin-1.2.3.tgz", "promwarp_1.2.3_amd64.deb",
	}, names)
	require.Equal(t, len(names)-1, strings.Count(run(t, a, "sha256sum", "-c", "SHA256SUMS"), ": OK\n"))
}

// requireArchive: tar unpacks what one needs by hand.
func requireArchive(t *testing.T, dir string) {
	const name = "promwarp-1.2.3-linux-amd64"
	list := run(t, dir, "tar", "--list", "--file", name+".tar.gz")
	var want strings.Builder
	for _, f := range []string{
		"promwarp", "LICENSE", "README.md", "CHANGELOG.md", "promwarp.yml", "promwarp.1",
		"completions/promwarp.bash", "completions/_promwarp", "completions/promwarp.fish",
	} {
		want.WriteString(name + "/" + f + "\n")
	}
	require.Equal(t, want.String(), list)
}

// requireDebian: dpkg reads the package, and has in it what the unit and the scripts name.
func requireDebian(t *testing.T, deb string) {
	require.Equal(t, "promwarp 1.2.3 amd64\n", run(t, "", "dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}\n", deb))
	dir := t.TempDir()
	run(t, "", "dpkg-deb", "--raw-extract", deb, dir)
	for file, mode := range map[string]os.FileMode{
		"usr/bin/promwarp":                         0o755,
		"usr/lib/systemd/system/promwarp.service":  0o644,
		"usr/lib/sysusers.d/promwarp.conf":         0o644,
		"usr/lib/tmpfiles.d/promwarp.conf":         0o644,
		"usr/share/doc/promwarp/copyright":         0o644,
		"usr/share/doc/promwarp/promwarp-gpu.conf": 0o644,
		"etc/promwarp/promwarp.yml":                0o640,

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
}

// requireComponents: the document has the modules that are linked into the program, and no others.
func requireComponents(t *testing.T, file string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(f, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	require.Len(t, *bom.Components, len(info.Deps)+1)
	for i, m := range info.Deps {
		require.Equal(t, m.Path+" "+m.Version, (*bom.Components)[i+1].Name+" "+(*bom.Components)[i+1].Version)
	}
	require.Equal(t, "std", (*bom.Components)[0].Name)
	require.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(*bom.Components))
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
	changes, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	require.Contains(t, string(changes), "\n## "+chart.Version)
}
