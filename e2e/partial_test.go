package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartialResponse: with partial_response=false, as Thanos Ruler sends it, an answer that an upstream is missing
// from is an error, so that absent() does not fire. Without it, or if nothing is missing, there is an answer.
func TestPartialResponse(t *testing.T) {
	g := smallGrid(2)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 2), "")
	both := func(down string) *process {
		addr := mustFreeAddr(t)
		config := fmt.Sprintf("remote_read:\n- {name: up, url: %s/api/v1/read}\n- {name: down, url: %s/api/v1/read, on_failure: warn}\n", up.URL, down)
		return runServer(t, "promwarp", addr, promwarpBin, "serve", "--config.file="+writeConfig(t, config), "--web.listen-address="+addr)
	}
	partial, whole := both("http://127.0.0.1:1"), both(prometheus(t, mustFreeAddr(t), t.TempDir(), "").URL)
	for _, query := range []string{`absent(up{job="not-there"})`, "sum by (job) (rate(http_requests_total[5m]))", "vector(1)"} {
		for path, form := range map[string]func() map[string][]string{
			queryPath: func() map[string][]string { return instantForm(query, g.end) },
			rangePath: func() map[string][]string { return g.rangeForm(query) },
		} {
			for _, said := range []string{"", "true", "false"} {
				asked := form()
				if said != "" {
					asked["partial_response"] = []string{said}
				}
				got := ask(t, partial.URL, path, asked)
				if said == "false" && query != "vector(1)" {
					require.Equal(t, http.StatusBadGateway, got.code, "%s %s", query, got.body)
					require.Contains(t, string(got.body), "without anything of the upstream down: cannot reach http://127.0.0.1:1")
					require.Contains(t, string(got.body), "partial_response=false refuses such an answer")
				} else {
					require.Equal(t, http.StatusOK, got.code, "%s %s", query, got.body)
					require.Equal(t, query != "vector(1)", len(mustParse(t, got).Warnings) > 0)
				}
				got = ask(t, whole.URL, path, asked)
				require.Equal(t, http.StatusOK, got.code, "%s %s", query, got.body)
				require.Empty(t, mustParse(t, got).Warnings)
			}
		}
	}
}

func mustParse(t *testing.T, a answer) response {
	t.Helper()
	parsed, err := a.parse()
	require.NoError(t, err)
	return parsed
}
