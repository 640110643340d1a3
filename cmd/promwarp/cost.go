package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

// costCommand declares promwarp cost.
func costCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("cost", "Say what the queries of files would cost a promwarp, by what it has cached, without running them.").HelpLong(`Examples:
  promwarp cost dashboard.json
  promwarp cost --url=http://promwarp:9201 --start=-30d rules.yml
`)
	o := compareOptions{variables: map[string]string{}}
	cmd.Arg("file", "Files of queries: one a line; a list in YAML; rules; a Grafana dashboard's JSON. - is standard input, a query a line.").Required().StringsVar(&o.files)
	o.server.Add(cmd, "")
	o.addTimes(cmd)
	cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").EnumVar(&o.format, "table", "json")
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runCost(ctx, o, os.Stdin, os.Stdout, os.Stderr)
	}
}

// costRow is what is said of one query.
type costRow struct {
	Query    string    `json:"query"`
	From     string    `json:"from,omitempty"`
	Cost     plan.Cost `json:"cost,omitzero"`
	Warnings []string  `json:"warnings,omitempty"`
	Error    string    `json:"error,omitempty"` // why the server refuses the query
}

// now is the time on cores that is expected as things are, in µs; 0 where it is not known.
func (r *costRow) now() int64 {
	if r.Cost.Cores == nil {
		return 0
	}
	return r.Cost.Cores.Now.Total
}

// runCost asks what all queries of all files would cost.
func runCost(ctx context.Context, o compareOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	queries, err := o.read(stdin, stderr)
	if err != nil {
		return err
	}
	c, err := o.server.Client("url", o.server.URL)
	if err != nil {
		return err
	}
	rows := []costRow{}
	for _, q := range queries {
		path, form := client.Form(q.Expr, q.over.Start, q.over.End, q.over.Step)
		if q.Instant {
			path, form = client.Form(q.Expr, q.over.End, q.over.End, 0)
		}
		row := costRow{Query: q.Expr, From: q.From}
		answer, err := c.Ask(ctx, path+"_cost", form)
		if refused := (*compare.Refused)(nil); errors.As(err, &refused) {
			row.Error = err.Error()
		} else if err != nil {
			return err
		} else if err := json.Unmarshal(answer.Data, &row.Cost); err != nil {
			return err
		} else {
			row.Warnings = answer.Warnings
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b costRow) int {
		return cmp.Or(cmp.Compare(b.now(), a.now()), cmp.Compare(b.Cost.Estimate.Samples, a.Cost.Estimate.Samples))
	})
	if o.format == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	return printCosts(stdout, rows)
}

// printCosts prints a table, what is added up, and of which queries something is not known.
func printCosts(w io.Writer, rows []costRow) error {
	cells := [][]string{{"NOW", "COLD", "WARM", "FETCH", "CACHED", "MEMORY", "SERIES", "SAMPLES", "MOST OF IT", "PANEL", "QUERY"}}
	var now, fetch, samples int64
	unknown := ""
	for _, r := range rows {
		query := strings.Join(strings.Fields(r.Query), " ")
		for _, why := range r.Warnings {
			unknown += query + ": " + why + "\n"
		}
		if r.Error != "" {
			unknown += query + ": " + r.Error + "\n"
			continue
		}
		c, times, most := &r.Cost, []string{"?", "?", "?"}, ""
		if t := c.Cores; t != nil {
			times = []string{micros(t.Now.Total), micros(t.Cold.Total), micros(t.Warm.Total)}
		}
		if c.Dominates != nil {
			most = c.Dominates.Phase + " " + c.Dominates.Selector
		}
		now, fetch, samples = now+r.now(), fetch+c.FetchBytes, samples+c.Estimate.Samples
		cells = append(cells, append(times, render.Size(c.FetchBytes), render.Size(c.CachedBytes), render.Size(c.MemoryBytes),
			render.Count(c.Estimate.Series), render.Count(c.Estimate.Samples), most, r.From, query))
	}
	if err := render.Table(w, cells, len(cells[0])-1, terminal.Width(w)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d queries: %s on cores as things are cached now, %s to be fetched, %s samples.\n%s",
		len(rows), micros(now), render.Size(fetch), render.Count(samples), unknown)
	return err
}

func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(time.Microsecond * time.Duration(max(1, us/1000))).String()
}
