package e2e

import (
	"fmt"
	"testing"
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
