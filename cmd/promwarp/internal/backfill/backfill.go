package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Options say what to fill in, from what, and where to.
type Options struct {
	Files         []string      // rule files
	Path          string        // under which Prometheus knows the file, or their directory with a / at its end
	Interval      time.Duration // of groups that have none
	QueryOffset   time.Duration // of groups that have none
	Alerts        bool          // whether alerting rules write ALERTS and ALERTS_FOR_STATE
	Start, End    time.Time     // of samples, both included
	Output        string        // the directory
	BlockDuration time.Duration
	Share         float64 // the part of the time in which the upstream is asked

	Parser   parser.Parser
	Upstream selection.Source
	Engine   *engine.Engine
	// Progress is told which part is done, up to when, and which rule is evaluated next.
	Progress func(part float64, at time.Time, rule string)
	// Warn is told what a person should know.
	Warn func(text string)
}

// Summary is what a run wrote.
type Summary struct {
	Series, Blocks int
	Samples        int64
}

// state is the file in the output directory that a run goes on from. Blocks are written beside it. Then
// the state names them, and then they move to the output directory: a run that dies in between leaves
// what the next one can finish.
type state struct {
	Start  int64        `json:"start"` // ms
	Done   int64        `json:"done"`  // ms: what is before is written
	Blocks []string     `json:"blocks"`
	Of     []*ruleState `json:"of"` // by rule
}

// ruleState is what is known of a rule.
type ruleState struct {
	Rule     string    `json:"rule"`               // all that its samples depend on, but for the upstream
	Found    bool      `json:"found"`              // its expression had a result
	Failed   int64     `json:"failed,omitempty"`   // evaluations
	Failure  string    `json:"failure,omitempty"`  // the first
	Previous []*series `json:"previous,omitempty"` // series at the last evaluation that did not fail
	Quiet    int64     `json:"quiet,omitempty"`    // no alert was pending or firing then, ms
}

// stretch is the least time that is evaluated at once. Tests shorten it.
var stretch = 24 * time.Hour

// backfill is one run.
type backfill struct {
	Options
	rules  []*rule
	state  state
	warned map[string]bool
	rest   time.Duration      // before the upstream is asked again
	blocks []*tsdb.Block      // what is recorded before the stretch
	series map[string]*series // what is recorded in the stretch, by the bytes of labels
	sum    Summary
	known  map[string]bool // series that are in sum
}

// own is this program's directory within the output directory, made where blocks are written, file the state.
func (o *Options) own() string  { return filepath.Join(o.Output, ".backfill") }
func (o *Options) made() string { return filepath.Join(o.own(), "blocks") }
func (o *Options) file() string { return filepath.Join(o.own(), "state.json") }

// Run fills in what the rules would have recorded. It goes on from where a run before it ended.
func Run(ctx context.Context, o Options) (sum Summary, err error) {
	all, err := o.load()
	if err != nil {
		return sum, err
	}
	b := &backfill{Options: o, rules: all, warned: map[string]bool{}, known: map[string]bool{}}
	defer func() {
		onward := fmt.Sprintf("what is before %s is done, and the same command goes on from there", stamp(b.state.Done))
		switch {
		case err != nil && ctx.Err() != nil:
			err = fmt.Errorf("interrupted: %s", onward)
		case errors.As(err, new(fetchError)):
			err = fmt.Errorf("%w: %s", err, onward)
		}
		for _, block := range b.blocks {
			err = errors.Join(err, block.Close())
		}
	}()
	units := order(all)
	err = b.resume()
	start, end := b.state.Done, o.End.UnixMilli()+1
	if err == nil && start < end {
		err = b.unrecorded(ctx, start, end)
	}
	if err == nil {
		err = b.replay(ctx, start)
	}
	duration := b.BlockDuration.Milliseconds()
	long := (stretch.Milliseconds() + duration - 1) / duration * duration
	for from, to := start, int64(0); from < end && err == nil; from = to {
		to = min((from/long+1)*long, end)
		b.series = map[string]*series{}
		for i, unit := range units {
			part := (float64(from-start) + float64(to-from)*float64(i)/float64(len(units))) / float64(end-start)
			o.Progress(part, time.UnixMilli(from), unit[0].name)
			if err := b.evaluate(ctx, unit, from, to); err != nil {
				return b.sum, err
			}
		}
		err = b.finish(from, to)
	}
	for _, r := range all {
		if err == nil && !r.Found {
			o.Warn(fmt.Sprintf("%s wrote nothing: its expression has no result from %s to %s: %s", r, stamp(b.state.Start), stamp(end-1), r.text))
		}
		if err == nil && r.Failed > 0 {
			o.Warn(fmt.Sprintf("%s failed at %d evaluations, as it does in Prometheus: %s", r, r.Failed, r.Failure))
		}
	}
	return b.sum, err
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// evaluate evaluates rules of one unit in [from, to), and adds to the stretch what they write.
func (b *backfill) evaluate(ctx context.Context, unit []*rule, from, to int64) error {
	type turn struct {
		*rule
		plan.Grid
	}
	var turns []turn
	for _, r := range unit {
		g, n := r.grid(from, to), 1
		if !r.steps {
			n = g.Steps
		}
		for k := 0; k < g.Steps; k += n {
			turns = append(turns, turn{r, plan.Grid{Start: g.At(k), Interval: g.Interval, Steps: n}})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.Start+a.offset(), b.Start+b.offset()) })
	for _, t := range turns {
		res := &result{}
		err := b.fill(ctx, t.rule, t.Grid, res)
		if err == nil {
			err = b.record(ctx, t.rule, t.Grid, res)
		}
		for _, q := range res.queries {
			q.Close()
		}
		if err != nil {
			return fmt.Errorf("%s, %s to %s: %w", t.rule, stamp(from), stamp(to), err)
		}
	}
	return nil
}

// resume reads the state that a run before left, or begins one.
func (b *backfill) resume() error {
	start := b.Start.UnixMilli()
	b.state = state{Start: start, Done: start}
	for _, r := range b.rules {
		b.state.Of = append(b.state.Of, r.ruleState)
	}
	if err := os.MkdirAll(b.own(), 0o777); err != nil {
		return fmt.Errorf("the output directory cannot be used: %w; give another by --output", err)
	}
	var was state
	text, err := os.ReadFile(b.file())
	if errors.Is(err, fs.ErrNotExist) {
		if foreign, _ := filepath.Glob(filepath.Join(b.Output, "*", "meta.json")); len(foreign) > 0 {
			return fmt.Errorf("the block %s is of another origin: give an empty directory by --output", filepath.Dir(foreign[0]))
		}
		return nil
	}
	switch err = cmp.Or(err, json.Unmarshal(text, &was)); {
	case err != nil:
		return fmt.Errorf("%s cannot be read: %w; give another directory by --output", b.file(), err)
	case !slices.EqualFunc(was.Of, b.state.Of, func(a, b *ruleState) bool { return a.Rule == b.Rule }):
		return fmt.Errorf("%s has what other rules, or other flags, recorded: give those again to go on, or another directory by --output", b.Output)
	case was.Start != start:
		return fmt.Errorf("%s is filled in from %s on, and --start is %s: give --start=%s to go on, or another directory by --output",
			b.Output, stamp(was.Start), stamp(start), stamp(was.Start))
	}
	b.state = was
	for i, r := range b.rules {
		r.ruleState = was.Of[i]
	}
	return b.adopt(was.Blocks)
}

// finish writes the stretch [from, to) into blocks, and notes that it is done.
func (b *backfill) finish(from, to int64) error {
	if err := os.RemoveAll(b.made()); err != nil { // of a run that died before its state named them
		return err
	}
	duration := b.BlockDuration.Milliseconds()
	first := from / duration
	names := make([]string, (to-1)/duration-first+1)
	var writing errgroup.Group
	writing.SetLimit(runtime.GOMAXPROCS(0))
	for i := range names {
		writing.Go(func() error {
			var all []storage.Series
			mint := (first + int64(i)) * duration
			for _, s := range b.series {
				if part := s.cut(mint, mint+duration); part != nil {
					all = append(all, part)
				}
			}
			if len(all) == 0 {
				return nil
			}
			// A block writer takes samples up to half its range before the newest one.
			path, err := tsdb.CreateBlock(all, b.made(), 2*duration, promslog.NewNopLogger())
			names[i] = filepath.Base(path)
			return err
		})
	}
	if err := writing.Wait(); err != nil {
		return fmt.Errorf("writing blocks to %s: %w", b.made(), err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	b.state.Blocks, b.state.Done = append(b.state.Blocks, names...), to
	f, err := os.Create(b.file() + ".new")
	if err == nil {
		err = errors.Join(json.NewEncoder(f).Encode(b.state), f.Sync(), f.Close())
	}
	if err == nil {
		err = fileutil.Rename(f.Name(), b.file())
	}
	if err != nil {
		return fmt.Errorf("writing the state of the run: %w", err)
	}
	for key, s := range b.series {
		if n := len(s.floats) + len(s.histograms); n > 0 {
			b.known[key] = true
			b.sum.Samples += int64(n)
		}
	}
	b.sum.Series, b.sum.Blocks = len(b.known), b.sum.Blocks+len(names)
	return b.adopt(names)
}

// adopt moves written blocks to the output directory, and opens them, so that rules read them. A block
// that is not there any more was moved elsewhere by a person.
func (b *backfill) adopt(names []string) error {
	for _, name := range names {
		dir := filepath.Join(b.Output, name)
		if err := fileutil.Rename(filepath.Join(b.made(), name), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("moving a block to the output directory: %w", err)
		}
		block, err := tsdb.OpenBlock(promslog.NewNopLogger(), dir, nil, tsdb.DefaultPostingsDecoderFactory)
		if err == nil {
			b.blocks = append(b.blocks, block)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the block %s: %w", dir, err)
		}
	}
	return nil
}

// replay brings alerting rules to the state that they have at a time.
func (b *backfill) replay(ctx context.Context, until int64) error {
	for _, r := range b.rules {
		was := *r.ruleState
		for from, to := max(was.Quiet, b.state.Start), int64(0); r.alert != nil && from < until; from = to {
			to = min(from+stretch.Milliseconds(), until)
			b.Progress(0, time.UnixMilli(from), r.name)
			b.series = map[string]*series{}
			if err := b.evaluate(ctx, []*rule{r}, from, to); err != nil {
				return err
			}
		}
		*r.ruleState = was
	}
	return nil
}

// unrecorded fails if the upstream has samples in [start, end) of what is to be recorded: they would be
// there twice.
func (b *backfill) unrecorded(ctx context.Context, start, end int64) error {
	step := max(1, (end-start)/1000) // the time of the first sample is found to one
	steps := (end - start) / step
	g := plan.Grid{Start: end - 1 - (steps-1)*step, Interval: step, Steps: int(steps)}
	for _, r := range b.rules {
		for _, written := range r.writes {
			q, rows, err := b.ask(ctx, r, fmt.Sprintf("count(last_over_time(%s[%dms]))", written, step), g)
			if err != nil {
				return fmt.Errorf("asking the upstream for what it has of %s: %w", written, err)
			}
			defer q.Close()
			if len(rows) > 0 {
				return fmt.Errorf("the upstream has samples of %s from about %s on, and those would be there twice: "+
					"fill in what is before, by --end, or delete them there first", written, stamp(rows[0].Floats[0].T))
			}
		}
	}
	return nil
}
