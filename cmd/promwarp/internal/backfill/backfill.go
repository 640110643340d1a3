package backfill

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"

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
	Engine   interface {
		NewQuery(ctx context.Context, r engine.Request) (promql.Query, error)
	}
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
	Rules  string       `json:"rules"` // a hash of all that samples depend on
	Start  int64        `json:"start"` // ms
	Done   int64        `json:"done"`  // ms: what is before is written
	Blocks []string     `json:"blocks"`
	Of     []*ruleState `json:"of"` // by rule
}

// ruleState is what is known of a rule.
type ruleState struct {
	Found    bool         `json:"found"`              // its expression had a result
	Failed   int64        `json:"failed,omitempty"`   // evaluations
	Failure  string       `json:"failure,omitempty"`  // the first
	Previous []*recording `json:"previous,omitempty"` // series at the last evaluation that did not fail
	Quiet    int64        `json:"quiet,omitempty"`    // no alert was pending or firing then, ms
}

// stretch is the least time that is evaluated at once. Tests shorten it.
var stretch = 24 * time.Hour

// backfill is one run.
type backfill struct {
	Options
	rules  []*rule
	state  state
	warned map[string]bool
	rest   time.Duration             // before the upstream is asked again
	blocks []*tsdb.Block             // what is recorded before the stretch
	series map[string]*promql.Series // what is recorded in the stretch, by the bytes of labels
}

// Run fills in what the rules would have recorded. It goes on from where a run before it ended.
func Run(ctx context.Context, o Options) (sum Summary, err error) {
	all, err := o.load()
	if err != nil {
		return sum, err
	}
	units := order(all)
	b := &backfill{Options: o, rules: all, warned: map[string]bool{}}
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
	if err := b.resume(); err != nil {
		return sum, err
	}
	start, end := b.state.Done, o.End.UnixMilli()+1
	if err := b.unrecorded(ctx, start, end); err != nil {
		return sum, err
	}
	if err := b.replay(ctx, start); err != nil {
		return sum, err
	}
	duration := o.BlockDuration.Milliseconds()
	long := (stretch.Milliseconds() + duration - 1) / duration * duration
	series := map[string]bool{}
	for from, to := start, int64(0); from < end; from = to {
		to = min((from/long+1)*long, end)
		b.series = map[string]*promql.Series{}
		for i, unit := range units {
			part := (float64(from-start) + float64(to-from)*float64(i)/float64(len(units))) / float64(end-start)
			o.Progress(part, time.UnixMilli(from), unit[0].name)
			if err := b.evaluateUnit(ctx, unit, from, to, b.series); err != nil {
				return sum, err
			}
		}
		if err := b.finish(from, to, &sum); err != nil {
			return sum, err
		}
		for key, s := range b.series {
			if n := len(s.Floats) + len(s.Histograms); n > 0 {
				series[key] = true
				sum.Samples += int64(n)
			}
		}
		sum.Series = len(series)
	}
	for _, r := range all {
		if !r.Found {
			o.Warn(fmt.Sprintf("%s wrote nothing: its expression has no result from %s to %s: %s", r, stamp(b.state.Start), stamp(end-1), r.text))
		}
		if r.Failed > 0 {
			o.Warn(fmt.Sprintf("%s failed at %d evaluations, as it does in Prometheus: %s", r, r.Failed, r.Failure))
		}
	}
	return sum, nil
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// evaluateUnit evaluates rules of one unit in [from, to), and adds to series what they write.
func (b *backfill) evaluateUnit(ctx context.Context, unit []*rule, from, to int64, into map[string]*promql.Series) error {
	type turn struct {
		*rule
		plan.Grid
	}
	var turns []turn
	for _, r := range unit {
		g := r.grid(from, to)
		n := g.Steps
		if r.steps {
			n = 1
		}
		for k := 0; k < g.Steps; k += n {
			turns = append(turns, turn{r, plan.Grid{Start: g.At(k), Interval: g.Interval, Steps: n}})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Compare(a.Start+a.group.QueryOffset().Milliseconds(), b.Start+b.group.QueryOffset().Milliseconds())
	})
	for _, t := range turns {
		res := &result{}
		err := b.fill(ctx, t.rule, t.Grid, res)
		if err == nil {
			err = t.record(ctx, t.Grid, res, into)
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

// hash is that of all that samples depend on, but for the upstream.
func (b *backfill) hash() string {
	h := sha256.New()
	fmt.Fprintln(h, b.Interval, b.QueryOffset, b.Alerts)
	for _, r := range b.rules {
		// An alert is written as YAML; there is none of a recording rule.
		fmt.Fprintln(h, r, r.group.Interval(), r.group.QueryOffset(), r.group.Limit(), r.labels, r.text, r.alert)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// resume reads the state that a run before left, or begins one.
func (b *backfill) resume() error {
	b.state = state{Rules: b.hash(), Start: b.Start.UnixMilli(), Done: b.Start.UnixMilli()}
	for range b.rules {
		b.state.Of = append(b.state.Of, &ruleState{Quiet: b.state.Start})
	}
	if err := os.MkdirAll(b.own(), 0o777); err != nil {
		return fmt.Errorf("the output directory cannot be used: %w; give another by --output", err)
	}
	file := filepath.Join(b.own(), "state.json")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if foreign, _ := filepath.Glob(filepath.Join(b.Output, "*", "meta.json")); len(foreign) > 0 {
			return fmt.Errorf("the block %s is of another origin: give an empty directory by --output", filepath.Dir(foreign[0]))
		}
	} else {
		was := state{}
		if err == nil {
			err = json.Unmarshal(text, &was)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be read: %w; give another directory by --output", file, err)
		case was.Rules != b.state.Rules:
			return fmt.Errorf("%s has what other rules, or other flags, recorded: give those again to go on, or another directory by --output", b.Output)
		case was.Start != b.state.Start:
			return fmt.Errorf("%s is filled in from %s on, and --start is %s: give --start=%s to go on, or another directory by --output",
				b.Output, stamp(was.Start), stamp(b.state.Start), stamp(was.Start))
		}
		b.state = was
	}
	for i, r := range b.rules {
		r.ruleState = b.state.Of[i]
	}
	return b.adopt(b.state.Blocks)
}

// finish writes the stretch [from, to), and notes that it is done.
func (b *backfill) finish(from, to int64, sum *Summary) error {
	if err := os.RemoveAll(b.made()); err != nil { // of a run that died before its state named them
		return err
	}
	names, err := b.write(from, to)
	if err != nil {
		return err
	}
	b.state.Blocks, b.state.Done = append(b.state.Blocks, names...), to
	if err := b.save(); err != nil {
		return fmt.Errorf("writing the state of the run: %w", err)
	}
	sum.Blocks += len(names)
	return b.adopt(names)
}

// save writes the state, to the disk.
func (b *backfill) save() error {
	text, err := json.Marshal(b.state)
	if err != nil {
		return err
	}
	file := filepath.Join(b.own(), "state.json")
	f, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return fileutil.Rename(file+".new", file)
}

// replay brings alerting rules to the state that they have at a time.
func (b *backfill) replay(ctx context.Context, until int64) error {
	for _, r := range b.rules {
		was := *r.ruleState
		for from, to := was.Quiet, int64(0); r.alert != nil && from < until; from = to {
			to = min(from+stretch.Milliseconds(), until)
			b.Progress(0, time.UnixMilli(from), r.name)
			if err := b.evaluateUnit(ctx, []*rule{r}, from, to, map[string]*promql.Series{}); err != nil {
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
	parts := min(1000, end-start) // the time of the first sample is found to one of them
	if parts <= 0 {
		return nil
	}
	step := (end - start) / parts
	g := plan.Grid{Start: end - 1 - (parts-1)*step, Interval: step, Steps: int(parts)}
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
