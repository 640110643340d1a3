package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

// rig is what all stages share: programs, servers, and the result.
type rig struct {
	options
	begin    time.Time
	progress io.Writer
	programs map[string]peers.Program
	result   report.Result

	// Of the stage that is measured.
	stage   *stage
	shown   *report.Stage
	data    *samples
	source  *peers.Process // the Prometheus that has the samples
	running []*peers.Process
}

const resultFile = "result.json"

// resume reads what an earlier run left in the folder, or begins anew.
func (r *rig) resume() error {
	r.programs = map[string]peers.Program{}
	err := readJSON(filepath.Join(r.dir, resultFile), &r.result)
	if err == nil && r.result.Setup.Work != r.work {
		return fmt.Errorf("the results in %s are of another kind of time: -work=%t", r.dir, !r.work)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.result.Setup = report.Setup{
		Date: time.Now().UTC().Format(time.DateOnly), Processor: report.Processor(), Cores: runtime.GOMAXPROCS(0),
		Versions: map[string]string{"Go": runtime.Version()}, Rounds: r.rounds, Work: r.work,
	}
	return os.MkdirAll(r.dir, 0o755)
}

// measure goes through a stage.
func (r *rig) measure(ctx context.Context, s *stage) error {
	r.say("stage %s", s.name)
	defer r.stop()
	for _, name := range []string{peers.Prometheus, peers.Promwarp} {
		if err := r.find(ctx, name); err != nil {
			return err
		}
	}
	of := r.options.data.or(s.data)
	var err error
	if r.data, err = r.samples(ctx, of); err != nil {
		return err
	}
	r.stage, r.shown = s, r.result.Stage(s.name)
	r.shown.Data, r.shown.Hours, r.shown.End, r.shown.Rounds = r.data.Stats, of.hours, r.data.state.End, cmp.Or(r.rounds, s.rounds)
	return s.run(ctx, r)
}

// find has a program at hand, built if need be.
func (r *rig) find(ctx context.Context, name string) error {
	if _, ok := r.programs[name]; ok {
		return nil
	}
	var p peers.Program
	var err error
	if path := *r.binaries[name]; path != "" {
		if p, err = peers.Given(ctx, name, path); err != nil {
			return fmt.Errorf("-%s: %w", name, err)
		}
	} else if p, err = peers.Build(ctx, name, r.dir, func(s string) { r.say("%s", s) }); err != nil {
		return err
	}
	r.programs[name], r.result.Setup.Versions[name] = p, p.Version
	r.result.Setup.Commit = cmp.Or(p.Commit, r.result.Setup.Commit)
	return nil
}

// say prints what happens, and when.
func (r *rig) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "%5.0fs %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// save writes what there is, for a later run and where it is wanted.
func (r *rig) save() error {
	r.result.Wall = time.Since(r.begin).Seconds()
	if err := report.WriteJSON(filepath.Join(r.dir, resultFile), r.result); err != nil {
		return err
	}
	if r.json != "" {
		if err := report.WriteJSON(r.json, r.result); err != nil {
			return err
		}
	}
	return r.writeMarkdown()
}

// writeMarkdown writes the tables where they are wanted in Markdown.
func (r *rig) writeMarkdown() error {
	if r.markdown == "" {
		return nil
	}
	var b strings.Builder
	for _, t := range r.result.Tables() {
		b.WriteString(t.Title + "\n\n" + t.Markdown() + "\n")
	}
	for _, note := range r.result.Notes() {
		b.WriteString("- " + note + "\n")
	}
	return os.WriteFile(r.markdown, []byte(b.String()), 0o644)
}

// stop ends all servers.
func (r *rig) stop() {
	for _, p := range r.running {
		p.Kill()
	}
	r.running, r.source = nil, nil
}

// alive returns an error if a server has ended.
func (r *rig) alive() error {
	for _, p := range r.running {
		if err := p.Alive(); err != nil {
			return err
		}
	}
	return nil
}

// started notes a server that the stage's end will end.
func (r *rig) started(p *peers.Process, err error) (*peers.Process, error) {
	if err != nil {
		return nil, err
	}
	_ = p.ForgetPeak() // where the system can
	r.running = append(r.running, p)
	return p, nil
}

// prometheus starts the Prometheus that has the stage's samples, on a number of cores, all for 0.
func (r *rig) prometheus(ctx context.Context, cores int) (err error) {
	r.source, err = r.started(peers.StartPrometheus(ctx, r.programs[peers.Prometheus].On(cores), r.data.dir, "",
		"--query.timeout=10m", "--query.max-concurrency=64", "--query.max-samples=1000000000"))
	return err
}

// reader starts a Prometheus without samples that reads from url and evaluates rules, if there are
// any, with further flags.
func (r *rig) reader(ctx context.Context, url, rules string, flags ...string) (*peers.Process, error) {
	dir, err := os.MkdirTemp(r.dir, "reader-")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("remote_read: [{url: '%s', read_recent: true}]\n", url)
	if rules != "" {
		file := filepath.Join(dir, "rules.yml")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			return nil, err
		}
		config += fmt.Sprintf("rule_files: ['%s']\n", file)
	}
	return r.started(peers.StartPrometheus(ctx, r.programs[peers.Prometheus], dir, config, flags...))
}

// promwarp starts a promwarp, with nothing in its cache, before the Prometheus that has the
// samples. It ends when the caller or started says so.
func (r *rig) promwarp(ctx context.Context, cores int, flags ...string) (*peers.Process, error) {
	flags = append(flags, strings.Fields(cmp.Or(r.promwarpFlags, r.stage.flags))...)
	return peers.StartPromwarp(ctx, r.programs[peers.Promwarp].On(cores), append(flags, "--upstream.url="+r.source.URL)...)
}

// victoriaMetrics starts a VictoriaMetrics that has the stage's samples. One that may run on all
// cores answers where it was sent them, another from its disk.
func (r *rig) victoriaMetrics(ctx context.Context, cores int) (*peers.Process, error) {
	if err := r.find(ctx, peers.VictoriaMetrics); err != nil {
		return nil, fmt.Errorf("%w\n(-only promwarp does without)", err)
	}
	if !r.data.Fed {
		p, err := r.feed(ctx)
		if err != nil || cores == 0 {
			return p, err
		}
		r.data.Fed = true
		if err := errors.Join(p.Terminate(ctx), r.data.save()); err != nil {
			return nil, err
		}
		r.running = r.running[:len(r.running)-1]
	}
	return r.started(peers.StartVictoriaMetrics(ctx, r.programs[peers.VictoriaMetrics].On(cores), r.data.dir))
}

// peak notes how much memory a server has had at most; all processes of one name have one peak.
func (r *rig) peak(name string, p *peers.Process) {
	if n, err := p.Memory("VmHWM"); err == nil { // of what has not ended
		r.shown.PeakRSS[name] = max(r.shown.PeakRSS[name], n)
	}
}

// peaks notes those of contenders that run all the time.
func (r *rig) peaks(cs []contender) {
	for _, c := range cs {
		if c.server != nil {
			r.peak(strings.Replace(c.names[0], report.Promwarp, peers.Promwarp, 1), c.server)
		}
	}
}
