package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

// promwarp starts as the unit, docker compose and the chart start it, and answers.
func TestDeployed(t *testing.T) {
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	unit, err := os.ReadFile("../deploy/systemd/promwarp.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/promwarp (.*) \$PROMWARP_ARGS$`).FindSubmatch(unit)
	require.NotNil(t, start)
	const command = "serve --config.file=/etc/promwarp/promwarp.yml"
	for name, c := range map[string]struct{ config, command string }{
		"unit":    {"../deploy/debian/promwarp.yml", string(start[1])},
		"compose": {"../examples/compose/promwarp.yml", command},
		"chart":   {"../deploy/helm/promwarp/values.yaml", command},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(c.config)
			require.NoError(t, err)
			if name == "chart" {
				var values struct {
					Config map[string]any `yaml:"config"`
				}
				require.NoError(t, yaml.Unmarshal(text, &values))
				text, err = yaml.Marshal(values.Config)
				require.NoError(t, err)
			}
			addr := mustFreeAddr(t)
			config := regexp.MustCompile(`listen_address:\s.*`).ReplaceAllString(string(text), "listen_address: ["+addr+"]")
			config = regexp.MustCompile(`http://[a-z-]+(:9090)?/api`).ReplaceAllString(config, up.url+"/api")
			config = strings.ReplaceAll(config, "/var/lib/promwarp", t.TempDir())
			command := strings.ReplaceAll(c.command, "/etc/promwarp/promwarp.yml", writeConfig(t, config))
			pw := runServer(t, "promwarp", addr, promwarpBin, strings.Fields(command)...)
			form := g.rangeForm(dashboard[0])
			want := ask(t, up.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code)
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, name)
		})
	}
}
