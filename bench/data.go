package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// shape is what data a stage needs, or what flags say of it.
type shape struct {
	series, hours int
	seed          uint64
	interval      time.Duration
	age           time.Duration // from the last sample to when they are made
	jitter        string
	block         time.Duration // length of blocks; 2 h for 0
	gauges        bool          // of all kinds of values, alone
	families      string        // of queries.Families, alone
}

// or is the shape with another's numbers in place of the ones that it lacks.
func (s shape) or(other shape) shape {
	s.series, s.hours = cmp.Or(s.series, other.series), cmp.Or(s.hours, other.hours)
	s.block, s.gauges, s.families = cmp.Or(s.block, other.block), other.gauges, other.families
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
	End   int64         `json:"end"` // of the samples, seconds since the epoch
	Stats dataset.Stats `json:"stats"`
	Fed   bool          `json:"fed"` // VictoriaMetrics has them on disk
}

func (s *samples) save() error { return report.WriteJSON(filepath.Join(s.dir, "state.json"), s.state) }

func (s *samples) end() time.Time { return time.Unix(s.state.End, 0) }

// length is how much time the samples cover.
func (s *samples) length() time.Duration {
	return time.Duration(s.Options.End-s.Start) * time.Millisecond
}

// samples makes samples of a shape, or finds them made.
func (r *rig) samples(ctx context.Context, of shape) (*samples, error) {
	s := &samples{dir: filepath.Join(r.dir, fmt.Sprintf("%s-%d-%dh-%d-%s-%s-%s", of.block, of.series, of.hours, of.seed, of.interval, of.age, of.jitter))}
	if of.gauges {
		s.dir += "-gauges"
	}
	if of.families != "" {
		s.dir += "-" + of.families
	}
	made := readJSON(filepath.Join(s.dir, "state.json"), &s.state)
	if errors.Is(made, os.ErrNotExist) {
		s.state = state{End: time.Now().Add(-of.age).Truncate(time.Minute).Unix()}
	} else if made != nil {
		return nil, made
	}
	s.Options = dataset.Options{
		Start: (s.state.End - int64(of.hours)*3600) * 1000, End: s.state.End * 1000, Series: of.series, Seed: of.seed, Interval: of.interval, Jitter: of.jitter, Block: of.block, Gauges: of.gauges,
	}
	s.Options.Families = queries.Families[of.families]
	if made == nil {
		return s, nil
	}
	r.say("generating about %d series over %d h", of.series, of.hours)
	blocks := filepath.Join(s.dir, "data")
	err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(blocks, 0o755))
	if err == nil {
		s.Stats, err = dataset.WriteBlocks(ctx, blocks, s.Options)
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
