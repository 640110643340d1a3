// Duckdb asks promwarp and DuckDB the same question over the same samples: for each series and five
// minutes the count, sum, mean, min and max. With -rivals it asks Prometheus and VictoriaMetrics,
// too, which take a range query for each of the five, answered as JSON.
//
//	make bench-duckdb ARGS='-series 10000 -hours 24 -rounds 5'
//
// The samples are those of package dataset, without stale markers. promwarp has them as a Prometheus
// data directory, and is asked over HTTP for an Arrow stream: first, when it reads them from disk, and
// again, when it has them in memory as chunks. DuckDB has them as a table of its own in memory, sorted
// by series and time, with a number for a series' labels, and makes a table of the answer. So promwarp's
// time has the sending of the answer with all labels, and DuckDB's has not. Rows and totals are compared.
// Beside the time it prints what a server took of its cores; where other work keeps these busy, only
// that can be compared.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/internal/dataset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "duckdb:", err)
		os.Exit(1)
	}
}

// totals are what both answers are compared by, and how long they took.
type totals struct {
	Rows, Count   float64
	Sum, Mean     float64 // of all rows
	Min, Max      float64
	Milliseconds  []float64
	CPU           []float64 // ms of all cores
	LoadedSeconds float64
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("duckdb", flag.ContinueOnError)
	series := flags.Int("series", 10_000, "about how many series")
	hours := flags.Int("hours", 4, "hours of samples, four a minute")
	rounds := flags.Int("rounds", 5, "how often each is asked")
	threads := flags.Int("threads", runtime.NumCPU(), "DuckDB's threads")
	rivals := flags.Bool("rivals", false, "ask Prometheus and VictoriaMetrics, too")
	scripts := flags.String("scripts", "", "folder of ask.mjs, with @duckdb/node-api installed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	http.DefaultTransport.(*http.Transport).DisableCompression = true // nobody is asked to compress answers
	dir, err := os.MkdirTemp("", "promwarp-duckdb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	end := time.Now().Truncate(10 * time.Minute).Add(-time.Minute) // no block begins there: a first scrape may be early
	o := dataset.Options{Start: end.Add(-time.Duration(*hours) * time.Hour).UnixMilli(), End: end.UnixMilli(), Series: *series, Seed: 1}
	blocks, file := filepath.Join(dir, "data"), filepath.Join(dir, "samples.parquet")
	if _, err := dataset.WriteBlocks(ctx, blocks, o, nil); err != nil {
		return err
	}
	samples, err := export(file, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d samples, %d cores\n", samples, runtime.NumCPU())

	ours, err := askPromwarp(ctx, dir, blocks, o, *rounds)
	if err != nil {
		return err
	}
	theirs, err := askDuckDB(ctx, filepath.Join(*scripts, "ask.mjs"), file, *rounds, *threads)
	if err != nil {
		return err
	}
	say := func(name string, t *totals) {
		fmt.Fprintf(out, "%-40s first %8.0f ms, again %8.0f ms, of cores %8.0f ms\n", name, t.Milliseconds[0], median(t.Milliseconds[1:]), median(t.CPU[1:]))
	}
	say("promwarp, first from disk", ours)
	say("DuckDB", theirs)
	fmt.Fprintf(out, "%-40s %.1f s\n", "DuckDB, loading and sorting", theirs.LoadedSeconds)
	if err := ours.compare(theirs); err != nil || !*rivals {
		return err
	}
	return askRivals(ctx, dir, o, *rounds, say)
}

// measure notes how long f took, and what p took of its cores meanwhile.
func (t *totals) measure(p *peers.Process, f func() error) error {
	before, err := p.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := p.CPU()
	t.Milliseconds = append(t.Milliseconds, float64(took.Microseconds())/1000)
	t.CPU = append(t.CPU, float64((after - before).Milliseconds()))
	return err
}

// sample is a row of DuckDB's table.
type sample struct {
	Series int32   `parquet:"series"`
	Time   int64   `parquet:"time,timestamp(millisecond),delta"`
	Value  float64 `parquet:"value"`
}

// export writes all samples but stale markers as a Parquet file, and returns their number.
func export(file string, o dataset.Options) (n int, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	g, err := dataset.New(o)
	if err != nil {
		return 0, err
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
		n += len(rows)
		_, err := w.Write(rows)
		return err
	})
	return n, errors.Join(err, w.Close())
}

// askPromwarp asks a promwarp over a data directory.
func askPromwarp(ctx context.Context, dir, blocks string, o dataset.Options, rounds int) (*totals, error) {
	repository, err := peers.FindRepository(ctx)
	if err != nil {
		return nil, err
	}
	program, err := repository.Promwarp(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := peers.StartPromwarpOver(ctx, program, blocks)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	form := url.Values{
		"match[]": {`{__name__=~".+"}`}, "every": {"5m"}, "aggregates": {"count,sum,mean,min,max"}, "format": {"arrow"},
		"start": {strconv.FormatInt(o.Start/1000-300, 10)}, "end": {strconv.FormatInt(o.End/1000, 10)},
	}
	var took totals
	var buf bytes.Buffer
	for range rounds + 1 {
		err := took.measure(p, func() error {
			resp, err := http.Get(p.URL + "/query?" + form.Encode())
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			buf.Reset()
			_, err = buf.ReadFrom(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("promwarp answers %d: %.300s", resp.StatusCode, buf.Bytes())
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	t, err := sumUp(buf.Bytes())
	if err != nil {
		return nil, err
	}
	t.Milliseconds, t.CPU = took.Milliseconds, took.CPU
	return t, nil
}

// sumUp reads an Arrow stream whose last columns are count, sum, mean, min and max.
func sumUp(body []byte) (*totals, error) {
	r, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	t := &totals{Min: math.Inf(1), Max: math.Inf(-1)}
	for r.Next() {
		b := r.RecordBatch()
		n := int(b.NumCols())
		column := func(k int) []float64 { return b.Column(n - 5 + k).(*array.Float64).Float64Values() }
		count, sum, mean, least, most := column(0), column(1), column(2), column(3), column(4)
		t.Rows += float64(len(count))
		for i := range count {
			t.Count += count[i]
			t.Sum += sum[i]
			t.Mean += mean[i]
			t.Min, t.Max = min(t.Min, least[i]), max(t.Max, most[i])
		}
	}
	return t, r.Err()
}

// askDuckDB has DuckDB load the samples and answer.
func askDuckDB(ctx context.Context, script, file string, rounds, threads int) (*totals, error) {
	cmd := exec.CommandContext(ctx, "node", script, file, strconv.Itoa(rounds+1), strconv.Itoa(threads))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", script, err)
	}
	t := &totals{}
	return t, json.Unmarshal(b, t)
}

// compare says where two answers differ.
func (t *totals) compare(u *totals) error {
	for _, c := range []struct {
		name string
		a, b float64
	}{{"rows", t.Rows, u.Rows}, {"count", t.Count, u.Count}, {"sum", t.Sum, u.Sum}, {"mean", t.Mean, u.Mean}, {"min", t.Min, u.Min}, {"max", t.Max, u.Max}} {
		if math.Abs(c.a-c.b) > 1e-9*math.Abs(c.a) {
			return fmt.Errorf("the answers differ: %s is %v of promwarp and %v of DuckDB", c.name, c.a, c.b)
		}
	}
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
