package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints what came of the attacks.
func printTable(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "attack\tverdict\ttook\tpeak RSS\tanonymous\tsmall p99\t")
	for _, r := range rows {
		p99 := "-"
		if r.small.asked > 0 {
			p99 = short(r.small.p99)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", r.name, r.word(), short(r.took), megabytes(r.peak.all), megabytes(r.peak.anonymous), p99)
	}
	_ = t.Flush()
}

// printRow prints one with its figures, as soon as they are known.
func printRow(w io.Writer, r row) {
	fmt.Fprintf(w, "%s  %s: %s", time.Now().Format("15:04:05"), r.name, r.word())
	if r.skipped != "" {
		fmt.Fprintf(w, ": %s", r.skipped)
	}
	fmt.Fprintf(w, " (%s)\n", short(r.took))
	for _, line := range r.broken {
		fmt.Fprintf(w, "    ! %.3000s\n", line)
	}
	if r.figures != "" {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(r.figures, " | ", "\n    "))
	}
	if r.peak.all > 0 {
		fmt.Fprintf(w, "    memory at most %s, anonymous %s\n", megabytes(r.peak.all), megabytes(r.peak.anonymous))
	}
	if r.small.asked > 0 {
		fmt.Fprintf(w, "    small queries: %s\n", r.small)
	}
}
