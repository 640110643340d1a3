package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// promwarp starts as those start it whom deploy/ is for, and answers.
func TestDeployed(t *testing.T) {
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	unit, err := os.ReadFile("../deploy/systemd/promwarp.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/promwarp (.*) \$PROMWARP_ARGS$`).FindSubmatch(unit)
	require.NotNil(t, start)
	for name, c := range map[string]struct{ config, command string }{
		"unit":    {"../deploy/debian/promwarp.yml", string(start[1])},
		"compose": {"../examples/compose/promwarp.yml", "serve --config.file=/etc/promwarp/promwarp.yml"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(c.config)
			require.NoError(t, err)
			addr := mustFreeAddr(t)
			config := regexp.MustCompile(`listen_address: .*`).ReplaceAllString(string(text), "listen_address: ["+addr+"]")
			config = regexp.MustCompile(`http://[a-z]+:9090/api`).ReplaceAllString(config, up.url+"/api")
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
