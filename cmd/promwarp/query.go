package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/remoteread"
)

func init() { commands = append(commands, queryCommand) }

// queryOptions are the flags of promwarp query.
type queryOptions struct {
	settings         config.Flags
	expr             string
	at               string
	start, end, step string
	executor         string
	output           string
	progress         bool
}

// queryCommand declares promwarp query.
func queryCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("query", "Evaluate one PromQL expression and print the answer. Times are RFC 3339, seconds since the epoch, now, or relative such as -24h.")
	var o queryOptions
	o.settings.AddSource(cmd)
	o.settings.AddQuery(cmd)
	o.settings.AddGPU(cmd)
	cmd.Flag("time", "When to evaluate.").PlaceHolder("now").StringVar(&o.at)
	cmd.Flag("start", "Start of a range query.").PlaceHolder("TIME").StringVar(&o.start)
	cmd.Flag("end", "End of a range query.").PlaceHolder("now").StringVar(&o.end)
	cmd.Flag("step", "Step of a range query; by default about 250 of them.").PlaceHolder("DURATION").StringVar(&o.step)
	cmd.Flag("executor", "Who evaluates: auto, cpu, gpu or prometheus. A GPU takes longer to start than most queries to evaluate, so it is used for gpu and with --gpu=require alone.").Default("auto").EnumVar(&o.executor, "auto", "cpu", "gpu", "prometheus")
	cmd.Flag("output", "Form of the answer: table, json or csv.").Short('o').Default("table").EnumVar(&o.output, "table", "json", "csv")
	cmd.Flag("progress", "Show progress on standard error even if that is no terminal.").BoolVar(&o.progress)
	cmd.Arg("expr", "The PromQL expression.").Required().StringVar(&o.expr)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runQuery(ctx, o, os.Stdout, os.Stderr)
	}
}

// evaluation is what one query evaluates. An instant query has no step.
type evaluation struct {
	start, end time.Time
	step       time.Duration
}

// evaluation reads the flags that say when.
func (o *queryOptions) evaluation(now time.Time) (evaluation, error) {
	ranged := o.start != "" || o.end != "" || o.step != ""
	var e evaluation
	var err error
	switch {
	case ranged && o.at != "":
		return e, errors.New("--time is for an instant query, --start, --end and --step for a range query; give one or the other")
	case ranged && o.start == "":
		return e, errors.New("a range query needs --start, such as --start=-24h")
	case !ranged:
		e.start = now
		if o.at != "" {
			if e.start, err = parseWhen(o.at, now); err != nil {
				return e, fmt.Errorf("--time: %w", err)
			}
		}
		e.end = e.start
		return e, nil
	}
	if e.start, err = parseWhen(o.start, now); err != nil {
		return e, fmt.Errorf("--start: %w", err)
	}
	e.end = now
	if o.end != "" {
		if e.end, err = parseWhen(o.end, now); err != nil {
			return e, fmt.Errorf("--end: %w", err)
		}
	}
	if e.end.Before(e.start) {
		return e, fmt.Errorf("--end (%s) is before --start (%s)", e.end.Format(time.RFC3339), e.start.Format(time.RFC3339))
	}
	e.step = defaultStep(e.start, e.end)
	if o.step != "" {
		if e.step, err = parseStep(o.step); err != nil {
			return e, fmt.Errorf("--step: %w", err)
		}
	}
	return e, nil
}

// runQuery evaluates one expression.
func runQuery(ctx context.Context, o queryOptions, stdout, stderr io.Writer) error {
	when, err := o.evaluation(time.Now())
	if err != nil {
		return config.Usage(err)
	}
	set, err := o.settings.Load()
	if err != nil {
		return err
	}
	if err := set.Validate(); err != nil {
		return config.Usage(err)
	}
	set.Cache.Path = "" // it is the server's
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return config.Usage(err)
	}
	mode, err := engine.ParseMode(o.executor)
	if err != nil {
		return config.Usage(err)
	}
	pool := footprint.NewPool(int64(set.Memory.Limit))
	reads, err := backend.Open(set, backend.Options{Memory: pool, Reg: prometheus.NewRegistry(), Logger: logger})
	if err != nil {
		return err
	}
	defer reads.Release()
	from := set.Engine(reads.Facts())
	if _, err := from.TextSettings.Limits().Parser(from.Parser()).ParseExpr(o.expr); err != nil {
		return fmt.Errorf("the expression does not parse: %w", err)
	}
	if mode == engine.GPU && set.GPU.Mode == config.GPUAuto {
		set.GPU.Mode = config.GPURequire
	}
	var gpus *placement.Placer
	if set.GPU.Mode == config.GPURequire {
		if gpus, err = backend.OpenGPUs(set.GPU, logger, nil); err != nil {
			return err
		}
		defer gpus.Close()
	}
	eval := backend.NewEvaluator(from, gpus, pool, backend.Watching{}, logger)
	defer eval.Release()

	p := newProgress(stderr, o.progress || isTerminal(stderr))
	ctx = engine.WithMode(ctx, mode, false)
	ctx = remoteread.WithProgress(ctx, p.report)
	var q promql.Query
	if when.step == 0 {
		q, err = eval.NewInstantQuery(ctx, reads.All, nil, o.expr, when.start)
	} else {
		q, err = eval.NewRangeQuery(ctx, reads.All, nil, o.expr, when.start, when.end, when.step)
	}
	if err != nil {
		return err
	}
	defer q.Close()
	res := q.Exec(ctx)
	p.clear()
	warnings, infos := res.Warnings.AsStrings(o.expr, 0, 0)
	for _, w := range warnings {
		fmt.Fprintln(stderr, "warning:", w)
	}
	for _, i := range infos {
		fmt.Fprintln(stderr, "info:", i)
	}
	if res.Err != nil {
		return res.Err
	}
	return write(stdout, o.output, res.Value)
}

// write prints an answer in the named form.
func write(w io.Writer, form string, v parser.Value) error {
	switch form {
	case "json":
		return writeJSON(w, v)
	case "csv":
		return writeCSV(w, v)
	}
	return writeTable(w, v)
}
