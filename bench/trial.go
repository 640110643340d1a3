package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/report"
)

// trial asks everyone one query.
type trial struct {
	*field
	form  url.Values
	row   report.Row
	want  answer.Answer  // Prometheus's
	right *answer.Matrix // the same, parsed, if need be
	buf   bytes.Buffer
	took  map[string][]time.Duration // by contender
}

// run fills the row. The error is one of Prometheus or promwarp; it leaves the
// row as far as it got.
func (t *trial) run(ctx context.Context, o options, number int) error {
	if err := t.warmUp(ctx); err != nil {
		return err
	}
	runtime.GC() // of the parsed answers, not in a round
	t.took = map[string][]time.Duration{}
	defer t.keep()
	begin := time.Now()
	for round := range o.rounds {
		for i := range t.contenders {
			c := &t.contenders[(i+round+number)%len(t.contenders)]
			if !c.exact && t.refused() {
				continue
			}
			a, err := c.ask(ctx, t.form, &t.buf)
			if err == nil && c.exact {
				err = t.judge(c, a)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err := a.Err(); err != nil { // of VictoriaMetrics
				t.row.Other = &answer.Difference{First: err.Error()}
				continue
			}
			t.took[c.name] = append(t.took[c.name], a.Took)
		}
		if time.Since(begin) > o.budget {
			break
		}
	}
	return nil
}

// warmUp asks everyone whom that makes warm, and notes what the answers are.
func (t *trial) warmUp(ctx context.Context) error {
	for i := range t.contenders {
		c := &t.contenders[i]
		if c.cold {
			continue
		}
		a, err := c.ask(ctx, t.form, &t.buf)
		if err == nil && c.twice {
			a, err = c.ask(ctx, t.form, &t.buf)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", c.name, err)
		case c.name == report.Prometheus:
			err = t.expect(a)
		case c.exact:
			err = t.judge(c, a)
		default:
			t.note(a)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	t.right = nil
	return nil
}

// expect takes Prometheus's answer for the right one.
func (t *trial) expect(a answer.Answer) (err error) {
	a.Body = bytes.Clone(a.Body)
	t.want = a
	if t.right, err = a.Parse(); err != nil {
		return err
	}
	t.row.Series, t.row.Points = len(t.right.Series), t.right.Points()
	return nil
}

// judge compares an answer that must be the right one, and keeps the first
// difference.
func (t *trial) judge(c *contender, a answer.Answer) error {
	if err := a.Err(); err != nil {
		return err
	}
	if t.want.Equal(a) {
		return nil
	}
	got, err := a.Parse()
	if err != nil {
		return err
	}
	right := t.right
	if right == nil { // not kept during the rounds
		if right, err = t.want.Parse(); err != nil {
			return err
		}
	}
	if d := answer.Compare(right, got); !d.Same() && t.row.Wrong == nil {
		d.First = c.name + ": " + d.First
		t.row.Wrong = &d
	}
	return nil
}

// note keeps how VictoriaMetrics's answer differs.
func (t *trial) note(a answer.Answer) {
	got, err := a.Parse()
	if err != nil {
		t.row.Other = &answer.Difference{First: err.Error()}
		return
	}
	if d := answer.Compare(t.right, got); !d.SameData() {
		t.row.Other = &d
	}
}

// refused says whether VictoriaMetrics had an error for an answer.
func (t *trial) refused() bool { return t.row.Other != nil && t.row.Other.SameData() }

// keep puts the times into the row.
func (t *trial) keep() {
	t.row.Timings = map[string]report.Timing{}
	for name, ds := range t.took {
		t.row.Timings[name] = report.NewTiming(ds)
	}
}

// summary is the row in short, for the progress.
func (t *trial) summary() string {
	if t.row.Error != "" {
		return ": " + t.row.Error
	}
	var b strings.Builder
	for _, c := range t.contenders {
		if timing, ok := t.row.Timings[c.name]; ok {
			fmt.Fprintf(&b, ", %s %.1f ms", c.name, timing.Median)
		}
	}
	if t.row.Wrong != nil {
		fmt.Fprintf(&b, ": DIFFERS: %s", t.row.Wrong.First)
	}
	return b.String()
}
