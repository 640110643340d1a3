package e2e

import (
	"fmt"
	"net/http"
	"testing"

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
			form := up.grid.rangeForm(q)
			want := ask(t, up.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			requireSame(t, want, ask(t, reader.url, rangePath, form), false, "first")
			requireSame(t, want, ask(t, reader.url, rangePath, form), false, "repeated")
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, up.grid.end)
		requireSame(t, ask(t, up.url, queryPath, form), ask(t, reader.url, queryPath, form), q.ordered, q.query)
	}
}
