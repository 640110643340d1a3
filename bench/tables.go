package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// tables asks a promwarp over a data directory for the count, sum, mean, min and max of each
// series and five minutes, in several formats: one that has just started, which reads the samples
// from disk, and one that has them in memory as chunks.
//
// With -scripts it asks DuckDB, too, which has the samples as a table of its own in memory, sorted
// by series and time, with a number for a series' labels, and makes a table of the answer. So
// promwarp's time has the sending of the answer with all labels, and DuckDB's has not. Rows and
// totals are compared.
func tables(ctx context.Context, r *rig) error {
	start := func(ctx context.Context) (*peers.Process, error) {
		flags := strings.Fields(cmp.Or(r.promwarpFlags, r.stage.flags))
		return peers.StartPromwarp(ctx, r.programs[peers.Promwarp], append(flags, "--tsdb.path="+filepath.Join(r.data.dir, "data"))...)
	}
	warm, err := r.started(start(ctx))
	if err != nil {
		return err
	}
	r.shown.Details = true
	cs := []contender{{names: []string{"from disk"}, start: start}, {names: []string{peers.Promwarp}, server: warm, warm: 2}}
	var qs []question
	for _, format := range []string{"arrow", "csv", "json"} {
		qs = append(qs, question{Query: queries.Query{Name: format}, request: answer.Request{Path: "/query", Form: url.Values{
			"match[]": {`{__name__=~".+"}`}, "every": {"5m"}, "aggregates": {"count,sum,mean,min,max"}, "format": {format},
			"start": {strconv.FormatInt(r.data.Start/1000-300, 10)}, "end": {strconv.FormatInt(r.data.Options.End/1000, 10)},
		}}})
	}
	if err := r.ask(ctx, qs, cs, 1); err != nil || r.scripts == "" {
		return err
	}
	a, err := answer.Ask(ctx, warm.URL, qs[0].request, nil)
	if err != nil {
		return err
	}
	ours, err := sumUp(a.Body)
	if err != nil {
		return err
	}
	theirs, err := r.askDuckDB(ctx)
	if err != nil {
		return err
	}
	row := r.shown.Row(qs[0].Name)
	r.shown.Contend("DuckDB")
	r.shown.Compare("DuckDB", peers.Promwarp, "DuckDB ×")
	row.Wrong, row.Note, row.Costs["DuckDB"] = ours.difference(theirs.Totals), "same", theirs.cost()
	r.say("DuckDB: %.1f ms, and %.1f s for loading and sorting", row.Costs["DuckDB"].Median, theirs.LoadedSeconds)
	return r.save()
}

// totals are what answers are compared by: their number of rows, and of all rows the counts, sums,
// means, the least and the most.
type totals [6]float64

// sumUp reads an Arrow stream whose last columns are count, sum, mean, min and max.
func sumUp(body []byte) (totals, error) {
	t := totals{4: math.Inf(1), 5: math.Inf(-1)}
	r, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		return t, err
	}
	defer r.Release()
	for r.Next() {
		b := r.RecordBatch()
		t[0] += float64(b.NumRows())
		for k := range 5 {
			for _, v := range b.Column(int(b.NumCols()) - 5 + k).(*array.Float64).Float64Values() {
				switch k {
				case 3:
					t[4] = min(t[4], v)
				case 4:
					t[5] = max(t[5], v)
				default:
					t[k+1] += v
				}
			}
		}
	}
	return t, r.Err()
}

// difference says where two answers differ, nothing if they do not.
func (t totals) difference(u totals) string {
	for i, name := range []string{"rows", "count", "sum", "mean", "min", "max"} {
		if math.Abs(t[i]-u[i]) > 1e-9*math.Abs(t[i]) {
			return fmt.Sprintf("%s is %v of promwarp and %v of DuckDB", name, t[i], u[i])
		}
	}
	return ""
}

// sample is a row of DuckDB's table.
type sample struct {
	Series int32   `parquet:"series"`
	Time   int64   `parquet:"time,timestamp(millisecond),delta"`
	Value  float64 `parquet:"value"`
}

// export writes all samples but stale markers as a Parquet file.
func export(file string, o dataset.Options) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	g, err := dataset.New(o)
	if err != nil {
		return err
	}
	w := parquet.NewGenericWriter[sample](f)
	ids := map[string]int32{}
	var rows []sample
	err = g.Next(o.End, func(s *dataset.Series, times []int64, values []float64) error {
		name := s.Labels.String()
		id, ok := ids[name]
		if !ok {
			id = int32(len(ids))
			ids[name] = id
		}
		rows = rows[:0]
		for k, v := range values {
			if !value.IsStaleNaN(v) {
				rows = append(rows, sample{id, times[k], v})
			}
		}
		_, err := w.Write(rows)
		return err
	})
	return errors.Join(err, w.Close())
}

// duckDB is what the script prints.
type duckDB struct {
	Totals            totals
	Milliseconds, CPU []float64 // of each round
	LoadedSeconds     float64
}

// cost is that of all rounds but the first.
func (d *duckDB) cost() report.Cost {
	var took []time.Duration
	for _, ms := range d.Milliseconds[1:] {
		took = append(took, time.Duration(ms*1e6))
	}
	return report.Cost{Timing: report.NewTiming(took), CPU: report.Median(d.CPU[1:])}
}

// askDuckDB has DuckDB load the samples and answer.
func (r *rig) askDuckDB(ctx context.Context) (*duckDB, error) {
	file := filepath.Join(r.data.dir, "samples.parquet")
	if err := export(file, r.data.Options); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(r.scripts, "duckdb.mjs"), file, strconv.Itoa(r.shown.Rounds+1), strconv.Itoa(runtime.NumCPU()))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("node duckdb.mjs: %w", err)
	}
	d := &duckDB{}
	return d, json.Unmarshal(b, d)
}
