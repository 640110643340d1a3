package deploy

import (
	"os"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

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
