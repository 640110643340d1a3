// Package deploy has no code; its tests look at what installs promwarp: the compose file, the
// Dockerfile, the unit.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const compose = "../examples/compose/"

// TestCompose: docker compose takes the files, alone and with a GPU, and what they mount and
// build from is there.
func TestCompose(t *testing.T) {
	for name, files := range map[string][]string{
		"cores": {compose + "compose.yaml"},
		"GPU":   {compose + "compose.yaml", compose + "gpu.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := cli.NewProjectOptions(files, cli.WithoutEnvironmentResolution, cli.WithResolvedPaths(true))
			require.NoError(t, err)
			p, err := options.LoadProject(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"grafana", "prometheus", "promwarp"}, p.ServiceNames())
			for _, s := range p.Services {
				for _, v := range s.Volumes {
					if v.Type == "bind" {
						info, err := os.Stat(v.Source)
						require.NoError(t, err, s.Name)
						require.False(t, info.IsDir(), "%s is a file in the container", v.Target)
					}
				}
				for _, port := range s.Ports {
					require.Equal(t, "127.0.0.1", port.HostIP, s.Name)
				}
			}
			require.Equal(t, "service_healthy", p.Services["grafana"].DependsOn["promwarp"].Condition)
			require.Equal(t, []string{"CMD", "/usr/bin/promwarp", "check", "ready"}, []string(p.Services["promwarp"].HealthCheck.Test))
			b := p.Services["promwarp"].Build
			require.FileExists(t, filepath.Join(b.Context, b.Dockerfile))
			require.Equal(t, name == "GPU", p.Services["promwarp"].Deploy != nil)
		})
	}
}

// TestComposeThanos: docker compose takes the example of Thanos, and what it mounts and builds from is there.
func TestComposeThanos(t *testing.T) { requireCompose(t, "../examples/thanos/compose.yaml", 7) }

// TestComposeRules: so it is with the example of rulers.
func TestComposeRules(t *testing.T) { requireCompose(t, "../examples/rules/compose.yaml", 6) }

func requireCompose(t *testing.T, file string, services int) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{file}, cli.WithoutEnvironmentResolution, cli.WithResolvedPaths(true), cli.WithProfiles([]string{"*"}))
	require.NoError(t, err)
	p, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Len(t, p.Services, services)
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			require.FileExists(t, v.Source, s.Name)
		}
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, s.Name)
		}
		if b := s.Build; b != nil {
			require.FileExists(t, filepath.Join(b.Context, b.Dockerfile))
		}
	}
}

// TestDockerfile: BuildKit parses the Dockerfile without a warning, and what it builds neither
// runs as root nor needs a shell.
func TestDockerfile(t *testing.T) {
	f, err := os.Open("docker/Dockerfile")
	require.NoError(t, err)
	defer f.Close()
	parsed, err := parser.Parse(f)
	require.NoError(t, err)
	require.Empty(t, parsed.Warnings)
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, at []parser.Range) { t.Errorf("%v: %s: %s", at, rule, message) },
	}))
	require.NoError(t, err)
	last := stages[len(stages)-1]
	require.Equal(t, "gcr.io/distroless/base-debian12:nonroot", last.BaseName)
	var user string
	var asked []string
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.RunCommand:
			t.Error("the image has no shell to run commands with")
		case *instructions.HealthCheckCommand:
			asked = c.Health.Test
		case *instructions.EntrypointCommand:
			require.False(t, c.PrependShell)
		case *instructions.CmdCommand:
			require.False(t, c.PrependShell)
		}
	}
	require.Equal(t, "65532:65532", user)
	require.Equal(t, []string{"CMD", "/usr/bin/promwarp", "check", "healthy"}, asked, "by the program itself")
}

// TestWorkflow: the workflow of the forge runs targets that the Makefile has, and a release waits for all
// other jobs.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../.github/workflows/ci.yml")
	require.NoError(t, err)
	var workflow struct {
		Jobs map[string]struct {
			If    string
			Needs []string
			Steps []struct{ Run, Uses string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &workflow))
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	var targets, others []string
	for name, job := range workflow.Jobs {
		if name != "release" {
			others = append(others, name)
		}
		for _, step := range job.Steps {
			if words := strings.Fields(step.Run); len(words) > 1 && words[0] == "make" {
				require.Contains(t, string(makefile), "\n"+words[1]+":")
				targets = append(targets, words[1])
			}
		}
	}
	require.ElementsMatch(t, []string{"build", "test", "check-chart", "check-deploy"}, targets)
	require.ElementsMatch(t, others, workflow.Jobs["release"].Needs)
	require.Equal(t, "startsWith(github.ref, 'refs/tags/v')", workflow.Jobs["release"].If)
}

// TestManPage: groff sets the manual's page without a warning.
func TestManPage(t *testing.T) {
	const page = "man/promwarp.1"
	warnings, err := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", page).CombinedOutput()
	require.NoError(t, err, "%s", warnings)
	require.Empty(t, string(warnings))
	text, err := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", page).Output()
	require.NoError(t, err)
	for _, want := range []string{"\n   promwarp check config <file>\n", "\n       --query.timeout=2m\n", "  promwarp query 'sum by (job) (rate(http_requests_total[5m]))'\n"} {
		require.Contains(t, string(text), want)
	}
}

// TestUnit: systemd takes the unit, and says that little is exposed; with what a GPU needs, too.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("systemd/promwarp.service")
	require.NoError(t, err)
	dropIn, err := os.ReadFile("systemd/promwarp-gpu.conf")
	require.NoError(t, err)
	for name, most := range map[string]string{"cores": "12", "GPU": "25"} {
		t.Run(name, func(t *testing.T) {
			// Of a program that is there.
			text := strings.ReplaceAll(string(unit), "/usr/bin/promwarp", "/bin/true")
			if name == "GPU" {
				text += "\n" + string(dropIn)
			}
			file := filepath.Join(t.TempDir(), "promwarp.service")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			for _, args := range [][]string{
				{"verify", "--man=no", "--recursive-errors=no", file},
				{"security", "--no-pager", "--offline=true", "--threshold=" + most, file},
			} {
				out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				if args[0] == "verify" {
					require.Empty(t, string(out))
				}
			}
		})
	}
}
