package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// field is everyone who takes part.
type field struct {
	dir   string // for data and programs
	say   func(string)
	setup report.Setup

	prometheus, promwarp, vm *peers.Process // the last two nil if they are not asked
	cores                    []int          // of further promwarps
	onCores                  []*peers.Process
	gzip                     bool          // ask promwarp for compressed answers, too
	promwarpProgram          peers.Program // for those that answer one query
	decoded                  string        // most memory for promwarp's decoded samples
	results                  string        // and for its results
	firstPeak                int64         // the largest peak of memory of those
	contenders               []contender
}

// start builds and starts the servers and gives them their data. What it
// started is stopped by stop, also after an error.
func (f *field) start(ctx context.Context, o options) error {
	f.setup = report.Setup{
		Versions: map[string]string{"Go": runtime.Version()},
		Cores:    runtime.GOMAXPROCS(0), Hours: o.hours, Seed: o.seed, End: o.end, Rounds: o.rounds,
	}
	repo, err := peers.FindRepository(ctx)
	if err != nil {
		return err
	}
	prometheus, err := repo.Prometheus(ctx, f.say)
	if err != nil {
		return err
	}
	f.setup.Versions["Prometheus"] = prometheus.Version
	f.decoded, f.results = o.decoded, o.results
	if o.promwarp {
		f.say("building promwarp")
		if f.promwarpProgram, err = repo.Promwarp(ctx, f.dir); err != nil {
			return err
		}
	}
	var victoriaMetrics peers.Program
	if o.vm {
		if victoriaMetrics, err = repo.VictoriaMetrics(ctx, f.say, o.cgo); err != nil {
			return fmt.Errorf("%w\n(-only promwarp does without)", err)
		}
		f.setup.Versions["VictoriaMetrics"] = victoriaMetrics.Version
	}

	f.say(fmt.Sprintf("generating about %d series over %d h", o.series, o.hours))
	if f.setup.Data, err = dataset.WriteBlocks(ctx, filepath.Join(f.dir, "data"), o.data(), nil); err != nil {
		return err
	}
	f.say(fmt.Sprintf("starting Prometheus on %d samples", f.setup.Data.Samples))
	if f.prometheus, err = peers.StartPrometheus(ctx, prometheus, f.dir); err != nil {
		return err
	}
	if o.vm {
		if err := f.startVictoriaMetrics(ctx, victoriaMetrics, o); err != nil {
			return err
		}
	}
	f.decoded, f.results = o.decoded, o.results
	if o.promwarp {
		if f.promwarp, err = peers.StartPromwarp(ctx, f.promwarpProgram, f.prometheus.URL, o.decoded, o.results); err != nil {
			return err
		}
		f.gzip = o.gzip
		for _, n := range o.cores {
			p, err := peers.StartPromwarp(ctx, f.promwarpProgram.On(n), f.prometheus.URL, o.decoded, o.results)
			if err != nil {
				return err
			}
			f.cores, f.onCores = append(f.cores, n), append(f.onCores, p)
		}
	}
	f.line()
	for _, p := range f.running() {
		p.ResetPeakRSS()
	}
	return nil
}

func (f *field) startVictoriaMetrics(ctx context.Context, program peers.Program, o options) (err error) {
	f.say("starting VictoriaMetrics and sending it the samples")
	if f.vm, err = peers.StartVictoriaMetrics(ctx, program, f.dir); err != nil {
		return err
	}
	sent, err := peers.Feed(ctx, f.vm, o.data(), nil)
	if err != nil {
		return err
	}
	if sent.Samples != f.setup.Data.Samples {
		return fmt.Errorf("the data set came with %d samples for VictoriaMetrics and with %d for Prometheus", sent.Samples, f.setup.Data.Samples)
	}
	f.say("waiting until VictoriaMetrics has merged its parts")
	return peers.Settle(ctx, f.vm, sent.Samples)
}

// running are the servers that run all the time.
func (f *field) running() (ps []*peers.Process) {
	for _, p := range append([]*peers.Process{f.prometheus, f.promwarp, f.vm}, f.onCores...) {
		if p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// alive returns an error if a server has ended.
func (f *field) alive() error {
	for _, p := range f.running() {
		if err := p.Alive(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all servers.
func (f *field) stop() {
	for _, p := range f.running() {
		p.Kill()
	}
}

// peaks are the peaks of memory in bytes, where the system says them.
func (f *field) peaks() map[string]int64 {
	peaks := map[string]int64{"Prometheus": f.prometheus.PeakRSS()}
	if f.promwarp != nil {
		peaks["promwarp"] = max(f.promwarp.PeakRSS(), f.firstPeak)
	}
	if f.vm != nil {
		peaks["VictoriaMetrics"] = f.vm.PeakRSS()
	}
	for name, n := range peaks {
		if n == 0 {
			delete(peaks, name)
		}
	}
	return peaks
}
