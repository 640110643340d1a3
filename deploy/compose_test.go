// Package deploy has no code; its tests look at what installs promwarp: the compose file, the
// Dockerfile, the unit.
package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/stretchr/testify/require"
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
