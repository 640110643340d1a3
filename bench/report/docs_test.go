package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplaced: what is between the marks is replaced, and nothing else.
func TestReplaced(t *testing.T) {
	got, err := replaced("a\n"+docsBegin+"old\n"+docsEnd+"b\n", "new\n")
	require.NoError(t, err)
	require.Equal(t, "a\n"+docsBegin+"new\n"+docsEnd+"b\n", got)
	again, err := replaced(got, "new\n")
	require.NoError(t, err)
	require.Equal(t, got, again)
	for text, says := range map[string]string{
		"a":                             "once each",
		docsBegin:                       "once each",
		docsBegin + docsBegin + docsEnd: "once each",
		docsEnd + docsBegin:             "wrong order",
	} {
		_, err := replaced(text, "new\n")
		require.ErrorContains(t, err, says)
	}
}

// TestWriteDocs: a page gets the run's tables, and stays as it is without marks.
func TestWriteDocs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(file, []byte("# Page\n\n"+docsBegin+docsEnd+"\nwords\n"), 0o600))
	require.NoError(t, example().WriteDocs("dashboards", file))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `# Page

`+docsBegin+`Data up to 2023-11-14: 10 series, 0.001 M samples, 24 h. Medians of at most 3 rounds on 2 cores, 12 s in all.

|  | geometric mean | least | most |
| --- | ---: | ---: | ---: |
| promwarp first, against Prometheus | 2.00× | 1.00× | 4.00× |
| promwarp repeated, against Prometheus | 7.37× | 1.00× | 40.0× |
| VictoriaMetrics, against Prometheus | 2.00× | 1.00× | 4.00× |
| promwarp repeated, against VictoriaMetrics | 1.58× | 1.00× | 2.50× |

2 of promwarp's 4 answers are Prometheus's; 2 of VictoriaMetrics's are not.
Peak resident memory: Prometheus 5 MiB.

| query | range | points | Prometheus ms | first ms | repeated ms | VM ms | first × | repeated × | repeated/VM × |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| `+"`a`"+` | 1d@1m | 7 | 100.0 | 50.0 | 10.0 | 25.0 | 2.00 | 10.0 | 2.50 |
| `+"`b`"+` | 6h@15s | 0 | 400.0 | 100.0 | 10.0 |  | 4.00 | 40.0 |  |
| `+"`c`"+` |  | 0 |  |  |  |  |  |  |  |
| `+"`d`"+` |  | 0 | 10.0 | 10.0 | 10.0 | 10.0 | 1.00 | 1.00 | 1.00 |
| geometric mean |  |  |  |  |  |  | 2.00 | 7.37 | 1.58 |
`+docsEnd+"\nwords\n", string(b))

	require.NoError(t, os.WriteFile(file, []byte("# Page\n"), 0o600))
	require.ErrorContains(t, example().WriteDocs("dashboards", file), "once each")
	require.Error(t, example().WriteDocs("dashboards", file+" that is not there"))
}

// TestPage: the project's page has the marks, so that make bench can write it.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	text, err := replaced(string(b), "")
	require.NoError(t, err)
	require.Less(t, strings.Count(text, "\n"), strings.Count(string(b), "\n")-40, "the tables are between them")
}
