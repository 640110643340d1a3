package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/internal/dataset"
)

// overTime are the functions that answer what promwarp's aggregates do, one a query.
var overTime = []string{"count_over_time", "sum_over_time", "avg_over_time", "min_over_time", "max_over_time"}

// askRivals asks a Prometheus over the blocks in dir/data, and a VictoriaMetrics that is sent the
// same samples, and prints what they take.
func askRivals(ctx context.Context, dir string, o dataset.Options, rounds int, say func(string, *totals)) error {
	repository, err := peers.FindRepository(ctx)
	if err != nil {
		return err
	}
	building := func(text string) { fmt.Println(text) }
	program, err := repository.Prometheus(ctx, building)
	if err != nil {
		return err
	}
	p, err := peers.StartPrometheus(ctx, program, dir)
	if err != nil {
		return err
	}
	t, err := askOverTime(ctx, p, o, rounds)
	p.Kill()
	if err != nil {
		return err
	}
	say("Prometheus, "+strconv.Itoa(len(overTime))+" queries a name", t)

	if program, err = repository.VictoriaMetrics(ctx, building, true); err != nil {
		return err
	}
	if p, err = peers.StartVictoriaMetrics(ctx, program, filepath.Join(dir, "vm")); err != nil {
		return err
	}
	defer p.Kill()
	stats, err := peers.Feed(ctx, p, o, nil)
	if err != nil {
		return err
	}
	if err := peers.Settle(ctx, p, stats.Samples); err != nil {
		return err
	}
	u, err := askOverTime(ctx, p, o, rounds)
	if err != nil {
		return err
	}
	say("VictoriaMetrics, the same", u)
	if math.Abs(t.Count-u.Count) > 0.01*t.Count {
		return fmt.Errorf("the answers differ: Prometheus counts %v samples and VictoriaMetrics %v", t.Count, u.Count)
	}
	return nil
}

// askOverTime asks a server for five minutes of all series, function by function and name by name,
// since the functions drop names. A round is all of these queries.
func askOverTime(ctx context.Context, p *peers.Process, o dataset.Options, rounds int) (*totals, error) {
	body, err := peers.Get(ctx, p.URL+"/api/v1/label/__name__/values")
	if err != nil {
		return nil, err
	}
	var names struct{ Data []string }
	if err := json.Unmarshal([]byte(body), &names); err != nil {
		return nil, err
	}
	t := &totals{}
	var counts []string
	for range rounds + 1 {
		err := t.measure(p, func() (err error) {
			counts, err = askAll(ctx, p, o, names.Data)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, body := range counts {
		if err := t.count([]byte(body)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// askAll makes the queries of a round, and returns the answers of the first function, which counts.
func askAll(ctx context.Context, p *peers.Process, o dataset.Options, names []string) (counts []string, err error) {
	const step = 300
	for _, function := range overTime {
		for _, name := range names {
			form := url.Values{
				"query": {fmt.Sprintf("%s(%s[5m])", function, name)}, "step": {strconv.Itoa(step)}, "nocache": {"1"},
				"start": {strconv.FormatInt(o.Start/1000/step*step, 10)}, "end": {strconv.FormatInt(o.End/1000+step, 10)},
			}
			body, err := peers.Get(ctx, p.URL+"/api/v1/query_range?"+form.Encode())
			if err != nil {
				return nil, err
			}
			if function == overTime[0] {
				counts = append(counts, body)
			}
		}
	}
	return counts, nil
}

// count adds up the values of a range query's answer.
func (t *totals) count(body []byte) error {
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	for _, s := range answer.Data.Result {
		for _, v := range s.Values {
			n, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err != nil {
				return err
			}
			t.Count += n
			t.Rows++
		}
	}
	return nil
}
