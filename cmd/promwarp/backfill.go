package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/backfill"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

// backfillOptions are the flags of promwarp backfill.
type backfillOptions struct {
	backfill.Options
	settings   config.Flags
	upstream   string
	start, end string
	block      string
	progress   bool
}

// backfillCommand declares promwarp backfill.
func backfillCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("backfill", "Fill in what recording rules would have recorded in the past, as blocks that Prometheus, Thanos and Mimir take.").HelpLong(`Examples:
  promwarp backfill --upstream.url=http://prometheus:9090 --start=2026-01-01T00:00:00Z --end=2026-04-01T00:00:00Z --output=blocks rules.yml
  promwarp backfill --tsdb.path=data --start=1767225600 --end=1775001600 --output=blocks --rules.path=/etc/prometheus/rules/ *.yml
`)
	var o backfillOptions
	cmd.Arg("file", "Prometheus's rule files, in the order in which rules of one read what another records.").Required().StringsVar(&o.Files)
	cmd.Flag("start", "Time of the first samples: RFC 3339, seconds since the epoch, now, or relative such as -30d.").PlaceHolder("TIME").Required().StringVar(&o.start)
	cmd.Flag("end", "Time of the last samples, before the first ones that the rules recorded live.").PlaceHolder("TIME").Required().StringVar(&o.end)
	cmd.Flag("output", "Directory to write blocks to. A run that was stopped goes on from what is there.").PlaceHolder("DIRECTORY").Required().StringVar(&o.Output)
	cmd.Flag("block-duration", "Time range of a block: Prometheus, Thanos and Mimir take 2h and 6h; 18h and 54h are for Prometheus alone.").Default("6h").EnumVar(&o.block, "2h", "6h", "18h", "54h")
	cmd.Flag("rules.path", "Path under which Prometheus knows the rule file, or with a / at its end the files' directory: the moments at which a group is evaluated follow from it. By default the file's absolute path.").PlaceHolder("PATH").StringVar(&o.Path)
	cmd.Flag("rules.query-offset", "Prometheus's global rule_query_offset, of groups without query_offset.").Default("0s").DurationVar(&o.QueryOffset)
	cmd.Flag("alerts", "Write ALERTS and ALERTS_FOR_STATE of alerting rules as well.").BoolVar(&o.Alerts)
	cmd.Flag("upstream.share", "Part of the time in which the upstream may be asked, above 0 and up to 1: below 1 one request at a time, with pauses between.").Default("1").Float64Var(&o.Share)
	cmd.Flag("progress", "Show progress on standard error even if that is no terminal.").BoolVar(&o.progress)
	o.settings.Quiet = true
	o.settings.Add(cmd, false)
	renamed(cmd, "upstream", "upstream.url", &o.upstream)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runBackfill(ctx, o, os.Stdout, os.Stderr)
	}
}

// runBackfill fills in.
func runBackfill(ctx context.Context, o backfillOptions, stdout, stderr io.Writer) (err error) {
	set, err := o.read(time.Now())
	if err != nil {
		return config.Usage(err)
	}
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return config.Usage(err)
	}
	reg := prometheus.NewRegistry()
	pool := footprint.NewPool(int64(set.Memory.Limit), reg)
	footprint.Limit(pool, int64(set.Memory.Limit))
	reads, err := backend.Open(set, backend.Options{Memory: pool, Reg: reg, Logger: logger})
	if err != nil {
		return err
	}
	defer reads.Release()
	from := set.Engine(reads.Facts())
	eval := backend.NewEvaluator(from, nil, pool, nil, logger)
	defer eval.Release()
	o.Interval, o.Parser, o.Upstream, o.Engine = from.Interval, from.Parser(), reads.All, eval.Engine

	p, began := terminal.NewProgress(stderr, o.progress), time.Now()
	o.Progress = func(part float64, at time.Time, rule string) {
		left := ""
		if part > 0 {
			left = fmt.Sprintf(", %s left", time.Duration(float64(time.Since(began))*(1/part-1)).Round(time.Second))
		}
		p.Show("%.0f %%%s: %s, %s", 100*part, left, at.UTC().Format(time.DateTime), rule)
	}
	o.Warn = func(text string) {
		p.Clear()
		fmt.Fprintln(stderr, "warning:", text)
	}
	sum, err := backfill.Run(ctx, o.Options)
	p.Clear()
	if sum.Blocks > 0 || err == nil {
		fmt.Fprintf(stdout, "wrote %d samples of %d series in %d blocks to %s in %s\n", sum.Samples, sum.Series, sum.Blocks, o.Output, time.Since(began).Round(time.Millisecond))
	}
	return err
}

// read reads the flags.
func (o *backfillOptions) read(now time.Time) (set config.Settings, err error) {
	over, err := (&request{start: o.start, end: o.end}).over(now)
	if err == nil {
		set, err = o.settings.Load()
	}
	switch {
	case err != nil:
		return set, err
	case over.End.After(now):
		return set, fmt.Errorf("--end (%s) is in the future: give a time that has samples, such as -10m", over.End.Format(time.RFC3339))
	case o.Share <= 0 || o.Share > 1:
		return set, fmt.Errorf("--upstream.share=%g: give a number above 0 and up to 1", o.Share)
	case o.Share < 1:
		set.Upstream.Concurrency = 1
	}
	o.Start, o.End = over.Start, over.End
	block, err := model.ParseDuration(o.block)
	o.BlockDuration = time.Duration(block)
	set.Upstream.URL = cmp.Or(o.upstream, set.Upstream.URL)
	set.GPU.Mode, set.Cache.Path, set.Cache.PrefetchRequests = config.GPUOff, "", 0
	set.Divide()
	return set, cmp.Or(err, set.Validate())
}
