package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Prometheus that reads from promwarp answers what promwarp's upstream
// answers.
func TestPrometheusReadsFromPromwarp(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.url)
	config := fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", pw.url)
	reader := prometheus(t, mustFreeAddr(t), t.TempDir(), config)
	for _, q := range []string{dashboard[0], dashboard[3], dashboard[5], dashboard[8], dashboard[14], dashboard[15]} {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.url, reader.url)
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, up.grid.end)
		requireSame(t, ask(t, up.url, queryPath, form), ask(t, reader.url, queryPath, form), q.ordered, q.query)
	}
}

// What the settings of a reader do is as docs/readers.md says.
func TestReaderSettings(t *testing.T) {
	g := smallGrid(3)
	addr := mustFreeAddr(t)
	up := runServer(t, "Prometheus", addr, prometheusBin, prometheusArgs(addr, smallData(t, g.end, 3), writeConfig(t, "global: {external_labels: {cluster: eu}}\n"))...)
	pw := promwarp(t, up.url)
	for name, c := range map[string]struct {
		global, read, query string
		found               bool
	}{
		"no external labels":                     {"", "", "count(up)", true},
		"their labels, which come":               {"", "", `count(up{cluster="eu"})`, true},
		"the same external labels":               {"external_labels: {cluster: eu}", "", "count(up)", true},
		"others":                                 {"external_labels: {cluster: us}", "", "count(up)", false},
		"others that are not sent":               {"external_labels: {cluster: us}", "filter_external_labels: false", "count(up)", true},
		"a required matcher that is not there":   {"", "required_matchers: {cluster: eu}", "count(up)", false},
		"a required matcher on an external one":  {"", "required_matchers: {cluster: eu}", `count(up{cluster="eu"})`, true},
		"a required matcher that no series has":  {"", "required_matchers: {tier: long}", `count(up{tier="long"})`, false},
		"another label than that which is added": {"", "", `count(up{cluster="us"})`, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Sprintf("global: {%s}\nremote_read: [{url: '%s/api/v1/read', read_recent: true, %s}]\n", c.global, pw.url, c.read)
			reader := prometheus(t, mustFreeAddr(t), t.TempDir(), config)
			a, err := ask(t, reader.url, queryPath, instantForm(c.query, g.end.Add(-time.Minute))).parse()
			require.NoError(t, err)
			require.Equal(t, "success", a.Status)
			if !c.found {
				require.Equal(t, "[]", string(a.Data.Result))
				return
			}
			want, err := ask(t, up.url, queryPath, instantForm("count(up)", g.end.Add(-time.Minute))).parse()
			require.NoError(t, err)
			require.Equal(t, string(want.Data.Result), string(a.Data.Result))
		})
	}
}
