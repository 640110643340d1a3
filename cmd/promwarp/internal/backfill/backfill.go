package backfill

import (
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

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/promwarp/promwarp/engine"
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
	Samples  int64         `json:"samples"`
	Failed   int64         `json:"failed,omitempty"`  // evaluations
	Failure  string        `json:"failure,omitempty"` // the first
	Previous []seriesState `json:"previous,omitempty"`
	Quiet    int64         `json:"quiet,omitempty"` // the latest end of a stretch at which no alert was pending or firing, ms
}

// seriesState is a series that a recording rule had at its last evaluation that did not fail.
type seriesState struct {
	Labels    labels.Labels `json:"labels"`
	Histogram bool          `json:"histogram,omitempty"`
}

// stretch is the least time that is evaluated at once. Tests shorten it.
var stretch = 24 * time.Hour

// backfill is one run.
type backfill struct {
	Options
	rules  []*rule
	units  [][]*rule
	store  *store
	state  state
	warned map[string]bool
}

// Run fills in what the rules would have recorded. It goes on from where a run before it ended.
func Run(ctx context.Context, o Options) (sum Summary, err error) {
	all, err := o.load()
	if err != nil {
		return sum, err
	}
	b := &backfill{Options: o, rules: all, units: order(all), store: &store{rules: all}, warned: map[string]bool{}}
	defer func() {
		switch {
		case err != nil && ctx.Err() != nil:
			err = fmt.Errorf("interrupted: %s", b.onward())
		case errors.As(err, new(fetchError)):
			err = fmt.Errorf("%w: %s", err, b.onward())
		}
		err = errors.Join(err, b.store.close())
	}()
	if err := b.resume(); err != nil {
		return sum, err
	}
	start, end := b.state.Done, o.End.UnixMilli()+1
	if start < end {
		if err := b.unrecorded(ctx, start, end); err != nil {
			return sum, err
		}
	}
	if err := b.replay(ctx, start); err != nil {
		return sum, err
	}
	duration := o.BlockDuration.Milliseconds()
	long := (stretch.Milliseconds() + duration - 1) / duration * duration
	series := map[string]bool{}
	for from, to := start, int64(0); from < end; from = to {
		to = min((from/long+1)*long, end)
		b.store.series = map[string]*promql.Series{}
		done := 0
		for _, unit := range b.units {
			part := (float64(from-start) + float64(to-from)*float64(done)/float64(len(all))) / float64(end-start)
			o.Progress(part, time.UnixMilli(from), unit[0].name)
			if err := b.evaluateUnit(ctx, unit, from, to, b.store); err != nil {
				return sum, fmt.Errorf("%s, %s to %s: %w", unit[0], stamp(from), stamp(to), err)
			}
			done += len(unit)
		}
		for key, s := range b.store.series {
			series[key] = true
			sum.Samples += int64(len(s.Floats) + len(s.Histograms))
		}
		n, err := b.finish(from, to)
		if err != nil {
			return sum, err
		}
		sum.Blocks, sum.Series = sum.Blocks+n, len(series)
	}
	for _, r := range all {
		if r.Samples == 0 {
			o.Warn(fmt.Sprintf("%s wrote nothing: its expression has no result from %s to %s: %s", r, stamp(b.state.Start), stamp(end-1), r.text))
		}
		if r.Failed > 0 {
			o.Warn(fmt.Sprintf("%s failed at %d evaluations, as it does in Prometheus: %s", r, r.Failed, r.Failure))
		}
	}
	return sum, nil
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// onward says how to go on after a run that ended early.
func (b *backfill) onward() string {
	return fmt.Sprintf("what is before %s is done, and the same command goes on from there", stamp(b.state.Done))
}

// evaluateUnit evaluates rules of one unit in [from, to). A nil store drops what they write.
func (b *backfill) evaluateUnit(ctx context.Context, unit []*rule, from, to int64, into *store) error {
	type turn struct {
		*rule
		evaluations
	}
	var turns []turn
	for _, r := range unit {
		over := r.evaluations(from, to)
		switch {
		case over.n == 0:
		case !r.steps:
			turns = append(turns, turn{r, over})
		default:
			for i := range over.n {
				turns = append(turns, turn{r, over.alone(i)})
			}
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.first.Compare(b.first) })
	for _, t := range turns {
		res, err := b.evaluate(ctx, t.rule, t.text, t.evaluations)
		if err != nil {
			return err
		}
		if t.alert != nil {
			err = b.alert(ctx, t.rule, t.evaluations, &res, into)
		} else {
			t.record(t.evaluations, &res, into)
		}
		res.release()
		if err != nil {
			return err
		}
	}
	for _, r := range unit {
		if r.alert != nil && r.alert.isQuiet() {
			r.Quiet = to
		}
	}
	return nil
}

// own is the directory within the output directory that is this program's.
func (o *Options) own() string { return filepath.Join(o.Output, ".backfill") }

// made is where blocks are written.
func (o *Options) made() string { return filepath.Join(o.own(), "blocks") }

// hash is that of all that samples depend on, but for the upstream.
func (b *backfill) hash() string {
	h := sha256.New()
	fmt.Fprintln(h, b.Interval, b.QueryOffset, b.Alerts)
	for _, r := range b.rules {
		fmt.Fprintln(h, r.group.File(), r.group.Name(), r.group.Interval(), r.group.QueryOffset(), r.group.Limit(), r.name, r.labels, r.text)
		if r.alert != nil {
			fmt.Fprintln(h, r.alert.rule.HoldDuration(), r.alert.rule.KeepFiringFor())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// resume reads the state that a run before left, or begins one. It refuses a directory whose blocks
// would overlap.
func (b *backfill) resume() error {
	b.state = state{Rules: b.hash(), Start: b.Start.UnixMilli(), Done: b.Start.UnixMilli()}
	for range b.rules {
		b.state.Of = append(b.state.Of, &ruleState{Quiet: b.state.Start})
	}
	if err := os.MkdirAll(b.own(), 0o777); err != nil {
		return fmt.Errorf("the output directory cannot be used: %w; give another by --output", err)
	}
	text, err := os.ReadFile(filepath.Join(b.own(), "state.json"))
	if err == nil {
		was := state{}
		if err := json.Unmarshal(text, &was); err != nil {
			return fmt.Errorf("%s cannot be read: %w; give another directory by --output", filepath.Join(b.own(), "state.json"), err)
		}
		switch {
		case was.Rules != b.state.Rules:
			return fmt.Errorf("%s has what other rules, or other flags, recorded: give those again to go on, or another directory by --output", b.Output)
		case was.Start != b.state.Start:
			return fmt.Errorf("%s is filled in from %s on, and --start is %s: give --start=%s to go on, or another directory by --output",
				b.Output, stamp(was.Start), stamp(b.state.Start), stamp(was.Start))
		}
		b.state = was
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the state of the run before: %w", err)
	}
	for i, r := range b.rules {
		r.ruleState = b.state.Of[i]
	}
	if err := b.move(b.state.Blocks); err != nil {
		return err
	}
	if err := b.store.open(b.Output, "*"); err != nil {
		return err
	}
	foreign := func(id ulid.ULID) bool { return !slices.Contains(b.state.Blocks, id.String()) }
	for _, block := range b.store.blocks {
		meta := block.Meta()
		if slices.ContainsFunc(meta.Compaction.Sources, foreign) && meta.MaxTime > b.state.Start && meta.MinTime <= b.End.UnixMilli() {
			return fmt.Errorf("the block %s, of %s to %s, is of another origin and would overlap: give an empty directory by --output",
				block.Dir(), stamp(meta.MinTime), stamp(meta.MaxTime))
		}
	}
	return nil
}

// move moves written blocks to the output directory.
func (b *backfill) move(names []string) error {
	for _, name := range names {
		err := fileutil.Rename(filepath.Join(b.made(), name), filepath.Join(b.Output, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("moving a block to the output directory: %w", err)
		}
	}
	return nil
}

// finish writes the stretch [from, to), and notes that it is done.
func (b *backfill) finish(from, to int64) (blocks int, err error) {
	if err := os.RemoveAll(b.made()); err != nil { // of a run that died before its state named them
		return 0, err
	}
	names, err := b.store.write(b.made(), from, to, b.BlockDuration.Milliseconds())
	if err != nil {
		return 0, err
	}
	b.state.Blocks, b.state.Done = append(b.state.Blocks, names...), to
	text, err := json.Marshal(b.state)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(b.own(), "state.json")
	if err := write(file+".new", text); err != nil {
		return 0, fmt.Errorf("writing the state of the run: %w", err)
	}
	if err := fileutil.Rename(file+".new", file); err != nil {
		return 0, fmt.Errorf("writing the state of the run: %w", err)
	}
	if err := b.move(names); err != nil {
		return 0, err
	}
	return len(names), b.store.open(b.Output, names...)
}

// write writes a file, to the disk.
func write(name string, content []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// replay brings alerting rules to the state that they have at a time.
func (b *backfill) replay(ctx context.Context, until int64) error {
	for _, r := range b.rules {
		if r.alert == nil {
			continue
		}
		was := *r.ruleState
		for from, to := was.Quiet, int64(0); from < until; from = to {
			to = min(from+stretch.Milliseconds(), until)
			b.Progress(0, time.UnixMilli(from), r.name)
			if err := b.evaluateUnit(ctx, []*rule{r}, from, to, nil); err != nil {
				return fmt.Errorf("%s, %s to %s: %w", r, stamp(from), stamp(to), err)
			}
		}
		r.Failed = was.Failed
	}
	return nil
}

// unrecorded fails if the upstream has samples in [start, end) of what is to be recorded: they would be
// there twice.
func (b *backfill) unrecorded(ctx context.Context, start, end int64) error {
	parts := min(1000, end-start) // the time of the first sample is found to one of them
	step := (end - start) / parts
	over := evaluations{start: end - 1 - (parts-1)*step, step: step, n: int(parts)}
	asking := &rule{group: rules.NewGroup(rules.GroupOptions{Interval: time.Duration(step) * time.Millisecond})}
	for _, r := range b.rules {
		for _, written := range r.writes {
			q, rows, err := b.ask(ctx, asking, fmt.Sprintf("count(last_over_time(%s[%dms]))", written, step), over)
			if err != nil {
				return fmt.Errorf("asking the upstream for what it has of %s: %w", written, err)
			}
			if len(rows) > 0 {
				err = fmt.Errorf("the upstream has samples of %s from about %s on, and those would be there twice: "+
					"fill in what is before, by --end, or delete them there first", written, stamp(rows[0].Floats[0].T))
			}
			q.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}
