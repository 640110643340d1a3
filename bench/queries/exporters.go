package queries

import (
	"embed"
	"path"
	"strings"
	"time"
)

//go:embed exporters/*.promql
var files embed.FS

// Exporters are the queries of the five dashboards in exporters/, over 30 days every hour, named by
// file and panel. ExporterFamilies are the metrics that they ask for, as dataset.Options has them.
var Exporters, ExporterFamilies = exporters()

// Families are the metrics of data sets that are made for some queries alone.
var Families = map[string][]string{"exporters": ExporterFamilies, "slo": objectiveFamilies}

func exporters() (qs []Query, families []string) {
	entries, err := files.ReadDir("exporters")
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join("exporters", entry.Name()))
		if err != nil {
			panic(err)
		}
		dashboard, title := strings.TrimSuffix(entry.Name(), ".promql"), ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if family, ok := strings.CutPrefix(line, "#:"); ok {
				families = append(families, family)
			} else if comment, ok := strings.CutPrefix(line, "#"); ok {
				title = strings.TrimSpace(comment)
			} else {
				qs = append(qs, Query{dashboard + ": " + title, line, 30 * 24 * time.Hour, time.Hour})
			}
		}
	}
	return qs, families
}
