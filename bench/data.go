package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// shape is what data a stage needs, or what flags say of it.
type shape struct {
	month         bool // counters in the blocks of a Prometheus that keeps a month; else those of package dataset
	series, hours int
	seed          uint64
	interval      time.Duration
	age           time.Duration // from the last sample to when they are made
	jitter        string
}

// or is the shape with another's numbers in place of the ones that it lacks.
func (s shape) or(other shape) shape {
	s.month = other.month
	s.series, s.hours = cmp.Or(s.series, other.series), cmp.Or(s.hours, other.hours)
	s.interval, s.age = cmp.Or(s.interval, other.interval), cmp.Or(s.age, other.age)
	return s
}

// samples are samples of a shape in a folder:
//
//	data             blocks, the data directory of a Prometheus
//	victoria-metrics what a VictoriaMetrics was sent of them
//	state.json       the state
type samples struct {
	dir string
	dataset.Options
	state
}

// state is what a later run has to know of samples.
type state struct {
	End   int64                     `json:"end"` // of the samples, seconds since the epoch
	Stats dataset.Stats             `json:"stats"`
	Fed   bool                      `json:"fed"`   // VictoriaMetrics has them on disk
	Right map[string]map[string]int `json:"right"` // points of answers that are right, by question and SHA-256
}

func (s *samples) save() error { return report.WriteJSON(filepath.Join(s.dir, "state.json"), s.state) }

// know keeps an answer to a question as a right one, by its SHA-256.
func (s *samples) know(question, sum string, points int) error {
	if s.Right[question] == nil {
		s.Right[question] = map[string]int{}
	}
	s.Right[question][sum] = points
	return s.save()
}

func (s *samples) end() time.Time { return time.Unix(s.state.End, 0) }

// length is how much time the samples cover.
func (s *samples) length() time.Duration {
	return time.Duration(s.Options.End-s.Start) * time.Millisecond
}

// samples makes samples of a shape, or finds them made.
func (r *rig) samples(ctx context.Context, of shape) (*samples, error) {
	kind := "set"
	if of.month {
		kind = "month"
	}
	s := &samples{dir: filepath.Join(r.dir, fmt.Sprintf("%s-%d-%dh-%d-%s-%s-%s", kind, of.series, of.hours, of.seed, of.interval, of.age, of.jitter))}
	made := readJSON(filepath.Join(s.dir, "state.json"), &s.state)
	if errors.Is(made, os.ErrNotExist) {
		s.state = state{End: time.Now().Add(-of.age).Truncate(time.Minute).Unix(), Right: map[string]map[string]int{}}
	} else if made != nil {
		return nil, made
	}
	s.Options = dataset.Options{
		Start: (s.state.End - int64(of.hours)*3600) * 1000, End: s.state.End * 1000, Series: of.series, Seed: of.seed, Interval: of.interval, Jitter: of.jitter,
	}
	if made == nil {
		return s, nil
	}
	r.say("generating about %d series over %d h", of.series, of.hours)
	blocks := filepath.Join(s.dir, "data")
	err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(blocks, 0o755))
	if err == nil && of.month {
		s.Stats = dataset.Stats{Series: of.series, Samples: int64(of.series) * (s.Options.End - s.Start) / interval}
		err = writeMonth(ctx, blocks, of.series, s.Start, s.Options.End)
	} else if err == nil {
		s.Stats, err = dataset.WriteBlocks(ctx, blocks, s.Options, nil)
	}
	if err != nil {
		return nil, err
	}
	return s, s.save()
}

// feed sends all samples to a VictoriaMetrics that has none and has it put them in order.
func (r *rig) feed(ctx context.Context) (*peers.Process, error) {
	r.say("sending VictoriaMetrics the samples")
	if err := os.RemoveAll(filepath.Join(r.data.dir, "victoria-metrics")); err != nil {
		return nil, err
	}
	p, err := r.started(peers.StartVictoriaMetrics(ctx, r.programs[peers.VictoriaMetrics], r.data.dir))
	if err != nil {
		return nil, err
	}
	sent, err := peers.Feed(ctx, p, r.data.Options)
	if err != nil {
		return nil, err
	}
	if sent.Samples != r.data.Stats.Samples {
		return nil, fmt.Errorf("VictoriaMetrics was sent %d samples, and Prometheus has %d", sent.Samples, r.data.Stats.Samples)
	}
	r.say("waiting until VictoriaMetrics has merged its parts")
	return p, peers.Settle(ctx, p, sent.Samples)
}

func readJSON(file string, to any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Times are in ms.
const (
	second   = int64(1000)
	interval = 15 * second
	lateBy   = 4 // not included
	seldom   = 8 // one scrape in 8 is late
	head     = tsdb.DefaultBlockDuration
	block    = 27 * head // what a Prometheus compacts to that keeps a month: 2 h times 3 times 3 times 3
)

// writeMonth writes a number of counters from start to end into dir as blocks of 54 h, whose
// chunks end where those of a Prometheus do. Counters are reset where a block begins.
func writeMonth(ctx context.Context, dir string, series int, start, end int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for from := start / block * block; from < end; from += block {
		group.Go(func() error { return writeBlock(ctx, dir, series, max(from, start), min(from+block, end)) })
	}
	return group.Wait()
}

// writeBlock writes one block, of a head with chunks of at most 2 h. The head takes samples that
// are up to an hour older than its newest one, so all series advance by that.
func writeBlock(ctx context.Context, dir string, series int, start, end int64) error {
	counters := make([]counter, series)
	for i := range counters {
		counters[i] = newCounter(i, start)
	}
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, head)
	if err != nil {
		return err
	}
	for to := start; to < end; {
		to = min(to+head/2, end)
		app := w.Appender(ctx)
		for i := range counters {
			if err := counters[i].until(app, to); err != nil {
				return errors.Join(err, app.Rollback(), w.Close())
			}
		}
		if err := app.Commit(); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	_, err = w.Flush(ctx)
	return errors.Join(err, w.Close())
}

// counter is a series with whole numbers, scraped up to lateBy ms late now and then.
type counter struct {
	labels labels.Labels
	random *rand.Rand
	next   int64 // when it is to be scraped
	value  float64
}

func newCounter(i int, start int64) counter {
	r := rand.New(rand.NewPCG(uint64(i), uint64(start)))
	target := i / 24
	return counter{
		labels: labels.FromStrings("__name__", "m_total", "instance", fmt.Sprintf("host-%04d:9100", target),
			"job", fmt.Sprint("job-", target%8), "path", fmt.Sprintf("/api/v1/resource/%02d", i%24)),
		random: r, next: start + int64(target)*37%interval, value: float64(r.IntN(1000)),
	}
}

// until appends the samples before end.
func (c *counter) until(app storage.Appender, end int64) error {
	var ref storage.SeriesRef
	for ; c.next < end-lateBy; c.next += interval {
		c.value += float64(c.random.IntN(30))
		at, err := c.next, error(nil)
		if c.random.IntN(seldom) == 0 {
			at += c.random.Int64N(lateBy)
		}
		if ref, err = app.Append(ref, c.labels, at, c.value); err != nil {
			return err
		}
	}
	return nil
}
