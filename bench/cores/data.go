package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// state is what is in the folder, for a run that goes on with it.
type state struct {
	Series int                      `json:"series"`
	Hours  int                      `json:"hours"`
	Seed   uint64                   `json:"seed"`
	End    int64                    `json:"end"`   // of the samples, seconds since the epoch
	Made   map[string]dataset.Stats `json:"made"`  // by jitter
	Fed    bool                     `json:"fed"`   // VictoriaMetrics has its samples
	Right  map[string]right         `json:"right"` // of answers that were compared
}

const stateFile = "state.json"

// resume reads what an earlier run left in the folder, or begins anew.
func (b *bench) resume() error {
	b.data = state{
		Series: b.series, Hours: b.hours, Seed: b.seed,
		End:  time.Now().Add(-b.age).Truncate(time.Minute).Unix(),
		Made: map[string]dataset.Stats{}, Right: map[string]right{},
	}
	cores, err := peers.Spread()
	if err != nil {
		return err
	}
	b.result = result{
		Setup: setup{
			Processor: processor(), Cores: len(cores), Order: cores, Go: runtime.Version(),
			Prometheus: b.programs[1].Version, VictoriaMetrics: b.programs[2].Version,
			Rounds: b.rounds, Date: time.Now().UTC().Format(time.DateOnly), Work: b.work,
		},
		Queries: map[string]described{}, Peaks: map[string]int64{},
	}
	var old state
	if err := readJSON(filepath.Join(b.dir, stateFile), &old); errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(b.dir, 0o755)
	} else if err != nil {
		return err
	}
	if old.Series != b.series || old.Hours != b.hours || old.Seed != b.seed {
		return fmt.Errorf("%s has other data: %d series, %d h, seed %d", b.dir, old.Series, old.Hours, old.Seed)
	}
	b.data = old
	err = readJSON(filepath.Join(b.dir, resultFile), &b.result)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && b.result.Setup.Work != b.work {
		return fmt.Errorf("the results in %s are of another kind of time: -work=%t", b.dir, !b.work)
	}
	return err
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

func (b *bench) samples(jitter string) dataset.Options {
	return dataset.Options{Start: (b.data.End - int64(b.hours)*3600) * 1000, End: b.data.End * 1000, Series: b.series, Seed: b.seed, Jitter: jitter}
}

// folder is where a Prometheus has the samples with the jitter.
func (b *bench) folder(jitter string) string { return filepath.Join(b.dir, "samples-"+jitter) }

// generate has the samples with the jitter as blocks, and in VictoriaMetrics, too, if that is wanted.
func (b *bench) generate(ctx context.Context, jitter string, feed bool) error {
	_, made := b.data.Made[jitter]
	feed = feed && !b.data.Fed
	if made && !feed {
		return nil
	}
	o := b.samples(jitter)
	group, ctx := errgroup.WithContext(ctx)
	var blocks, sent dataset.Stats
	if !made {
		b.say("generating about %d series over %d h, times differ: %s", b.series, b.hours, jitter)
		group.Go(func() (err error) {
			if err := errors.Join(os.RemoveAll(b.folder(jitter)), os.MkdirAll(b.folder(jitter), 0o755)); err != nil {
				return err
			}
			blocks, err = dataset.WriteBlocks(ctx, filepath.Join(b.folder(jitter), "data"), o, nil)
			b.say("blocks are written: %d samples", blocks.Samples)
			return err
		})
	}
	if feed {
		group.Go(func() (err error) {
			sent, err = b.feed(ctx, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if !made {
		b.data.Made[jitter] = blocks
	}
	if feed {
		if n := b.data.Made[jitter].Samples; sent.Samples != n {
			return fmt.Errorf("VictoriaMetrics was sent %d samples, and Prometheus has %d", sent.Samples, n)
		}
		b.data.Fed = true
	}
	return report.WriteJSON(filepath.Join(b.dir, stateFile), b.data)
}

// feed sends all samples to a VictoriaMetrics, has it put them in order, and ends it.
func (b *bench) feed(ctx context.Context, o dataset.Options) (dataset.Stats, error) {
	if err := os.RemoveAll(filepath.Join(b.dir, "victoria-metrics")); err != nil {
		return dataset.Stats{}, err
	}
	p, err := peers.StartVictoriaMetrics(ctx, b.programs[2], b.dir)
	if err != nil {
		return dataset.Stats{}, err
	}
	defer p.Kill()
	sent, err := peers.Feed(ctx, p, o, nil)
	if err != nil {
		return sent, err
	}
	b.say("VictoriaMetrics has all samples")
	if err := peers.Settle(ctx, p, sent.Samples); err != nil {
		return sent, err
	}
	b.say("VictoriaMetrics has merged its parts")
	return sent, p.Terminate(ctx)
}
