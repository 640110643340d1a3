package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/engine/compare"
)

// question is what contenders are asked: a query up to a time, or any other request.
type question struct {
	queries.Query
	end     time.Time
	length  time.Duration // of the data; a longer range is cut to it
	request answer.Request
}

// question asks for a query up to the end of the samples.
func (r *rig) question(q queries.Query) question {
	form := q.Form(r.data.end(), r.data.length())
	return question{q, r.data.end(), r.data.length(), answer.Request{Path: answer.QueryRange, Form: form}}
}

// questions are those of the queries whose names match -queries.
func (r *rig) questions(all ...queries.Query) (qs []question) {
	for _, q := range all {
		if r.match.MatchString(q.Name) {
			qs = append(qs, r.question(q))
		}
	}
	return qs
}

// contender is a server to ask, in some state.
type contender struct {
	// names are what its answers are called: of one that is started for each round the first, the
	// second and so on; of others there is one.
	names  []string
	server *peers.Process // nil for one that is started for each round
	start  func(context.Context) (*peers.Process, error)
	behind *peers.Process // that the server reads from
	warm   int            // how often it is asked before it is timed
	exact  bool           // must answer what Prometheus does
	other  bool           // resembles Prometheus; how its answers differ is noted
	once   bool           // is asked in the first round alone
	more   url.Values     // in place of a request's
	gzip   bool
	// asking is how it is asked, where not by the question's request.
	asking func(context.Context, question) (answer.Answer, error)
}

// asked is the request as the contender gets it.
func (c *contender) asked(q question) answer.Request {
	a := q.request
	a.Gzip = c.gzip
	if c.more != nil && a.Form != nil {
		a.Form = maps.Clone(a.Form)
		maps.Copy(a.Form, c.more)
	}
	return a
}

// trial asks contenders one question.
type trial struct {
	*rig
	question
	contenders []contender
	row        *report.Row
	want       *compare.Answer
	right      map[[sha256.Size]byte]int // points of answers that are right, by their bytes
	took       map[string][]cost
	buf        bytes.Buffer
}

// cost is what one answer took.
type cost struct {
	wall, first, cpu, behind time.Duration
	sent, read               int64
}

// ask asks contenders all questions, and writes the results as they come. The right answer is
// Prometheus's.
func (r *rig) ask(ctx context.Context, qs []question, cs []contender) error {
	for _, c := range cs {
		r.shown.Contend(c.names...)
	}
	for i, q := range qs {
		t := &trial{rig: r, question: q, contenders: cs, row: r.shown.Row(q.Name), right: map[[sha256.Size]byte]int{}, took: map[string][]cost{}}
		if q.Step > 0 {
			t.row.Expr, t.row.Range, t.row.Step = q.Expr, model.Duration(min(q.Range, q.length)).String(), model.Duration(q.Step).String()
		}
		t.row.Wrong, t.row.Error = "", ""
		err := t.run(ctx, i)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.alive(); err != nil {
			return fmt.Errorf("%s: %w", q.Name, err)
		}
		if err != nil {
			t.row.Error = err.Error()
		}
		r.say("%2d/%d %s%s", i+1, len(qs), q.Name, t.summary())
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// run fills the row. The error is one of Prometheus or promwarp; it leaves the row as far as it
// got.
func (t *trial) run(ctx context.Context, number int) error {
	defer t.keep()
	for i := range t.contenders {
		c := &t.contenders[i]
		for n := range c.warm {
			if err := t.answer(ctx, c, c.server, c.names[0], n == c.warm-1); err != nil {
				return err
			}
		}
		if c.start == nil {
			delete(t.took, c.names[0])
		}
	}
	t.want = nil
	runtime.GC() // of the parsed answers, not in a round
	begin := time.Now()
	for round := range t.shown.Rounds {
		for i := range t.contenders {
			c := &t.contenders[(i+round+number)%len(t.contenders)]
			if c.once && round > 0 || c.other && strings.HasPrefix(t.row.Other, refused) {
				continue
			}
			if err := t.round(ctx, c); err != nil {
				return err
			}
		}
		if budget := cmp.Or(t.budget, t.stage.budget); budget != 0 && time.Since(begin) > budget {
			break
		}
	}
	return nil
}

// round asks a contender once, one that is started for it as often as it has names.
func (t *trial) round(ctx context.Context, c *contender) error {
	server := c.server
	if c.start != nil {
		var err error
		if server, err = c.start(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.names[0], err)
		}
		defer server.Kill()
		defer t.peak(peers.Promwarp, server)
	}
	for _, name := range c.names {
		if err := t.answer(ctx, c, server, name, false); err != nil {
			return err
		}
	}
	return nil
}

const refused = "refused: "

// answer has a server answer, notes what that took under a name, and judges the answer. That of a
// contender that only resembles Prometheus is judged if that is wanted and Prometheus's is at hand.
func (t *trial) answer(ctx context.Context, c *contender, server *peers.Process, name string, judge bool) error {
	read := bytesRead(c.behind)
	before := spent(server, c.behind)
	var a answer.Answer
	var err error
	if c.asking != nil {
		a, err = c.asking(ctx, t.question)
	} else {
		a, err = answer.Ask(ctx, server.URL, c.asked(t.question), &t.buf)
	}
	if err == nil && c.other && a.Err() != nil {
		t.row.Other = refused + a.Err().Error()
		return nil
	}
	if err := cmp.Or(err, a.Err()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after := spent(server, c.behind)
	t.took[name] = append(t.took[name], cost{a.Took, a.First, after.cpu - before.cpu, after.behind - before.behind, int64(a.Sent), bytesRead(c.behind) - read})
	if c.exact || c.other && judge && t.want != nil {
		if err := t.judge(ctx, c, name, a); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// spent is what servers have run on cores so far, where the system says it.
func spent(server, behind *peers.Process) (c cost) {
	c.cpu, _ = server.CPU()
	if behind != nil {
		c.behind, _ = behind.CPU()
	}
	return c
}

// bytesRead is what a promwarp has sent readers so far.
func bytesRead(promwarp *peers.Process) int64 {
	if promwarp == nil {
		return 0
	}
	n, _ := promwarp.Metric("promwarp_read_bytes_total") // what has ended answers no question either
	return int64(n)
}

// judge compares an answer with Prometheus's, unless its bytes are those of one that was compared.
func (t *trial) judge(ctx context.Context, c *contender, name string, a answer.Answer) error {
	sum := sha256.Sum256(a.Body)
	t.row.Note = "same"
	if points, ok := t.right[sum]; ok {
		t.row.Points = points
		return nil
	}
	got, err := a.Parse()
	if err != nil {
		return err
	}
	if t.want == nil {
		if t.want, err = t.reference(ctx); err != nil {
			return fmt.Errorf("ask Prometheus for the right answer: %w", err)
		}
	}
	difference := answer.Difference(t.want, got)
	switch {
	case difference != "" && c.other:
		t.row.Other = difference
	case difference != "":
		t.row.Wrong = name + ": " + difference
	case c.other:
		t.row.Other = ""
	default:
		t.row.Points = answer.Points(got)
		t.right[sum] = t.row.Points
	}
	return nil
}

// reference is Prometheus's answer.
func (t *trial) reference(ctx context.Context) (*compare.Answer, error) {
	a, err := answer.Ask(ctx, t.source.URL, t.request, nil)
	if err != nil {
		return nil, err
	}
	return a.Parse()
}

// keep puts what was measured into the row.
func (t *trial) keep() {
	for name, costs := range t.took {
		t.row.Costs[name] = t.costOf(costs)
	}
}

// costOf is what answers took, in medians; with -work what they took is what the server ran on
// cores.
func (r *rig) costOf(costs []cost) report.Cost {
	of := func(f func(cost) int64) float64 {
		all := make([]float64, len(costs))
		for i, c := range costs {
			all[i] = float64(f(c))
		}
		return report.Median(all)
	}
	walls := make([]time.Duration, len(costs))
	for i, c := range costs {
		if walls[i] = c.wall; r.work {
			walls[i] = c.cpu
		}
	}
	const ms = 1e6
	return report.Cost{
		Timing: report.NewTiming(walls), First: of(func(c cost) int64 { return int64(c.first) }) / ms,
		CPU: of(func(c cost) int64 { return int64(c.cpu) }) / ms, Behind: of(func(c cost) int64 { return int64(c.behind) }) / ms,
		Sent: int64(of(func(c cost) int64 { return c.sent })), Read: int64(of(func(c cost) int64 { return c.read })),
	}
}

// summary is the row in short, for the progress.
func (t *trial) summary() string {
	if t.row.Error != "" {
		return ": " + t.row.Error
	}
	var b strings.Builder
	for _, name := range t.shown.Contenders {
		if _, ok := t.took[name]; ok {
			fmt.Fprintf(&b, ", %s %.1f ms", name, t.row.Costs[name].Median)
		}
	}
	if t.row.Wrong != "" {
		b.WriteString(": DIFFERS: " + t.row.Wrong)
	}
	return b.String()
}

// load is a number of clients that ask at once, each a number of times or for a time.
type load struct {
	clients int
	each    int
	during  time.Duration
}

// load has clients ask a contender questions, each beginning with another one, and notes what their
// answers took and the peak of the server's memory.
func (r *rig) load(ctx context.Context, row *report.Row, c contender, qs []question, l load) error {
	name := c.names[0]
	r.shown.Contend(name)
	_ = c.server.ForgetPeak() // where the system can
	all := make([][]cost, l.clients)
	group, asking := errgroup.WithContext(ctx)
	before, begin := spent(c.server, c.behind), time.Now()
	for k := range l.clients {
		group.Go(func() error {
			for i := 0; i < l.each || time.Since(begin) < l.during; i++ {
				a, err := answer.Ask(asking, c.server.URL, c.asked(qs[(k+i)%len(qs)]), nil)
				if err := cmp.Or(err, a.Err()); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all[k] = append(all[k], cost{wall: a.Took, first: a.First, sent: int64(a.Sent)})
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		row.Error = err.Error()
		return r.alive()
	}
	took, after := time.Since(begin), spent(c.server, c.behind)
	var costs []cost
	for _, some := range all {
		costs = append(costs, some...)
	}
	n := time.Duration(len(costs))
	for i := range costs {
		costs[i].cpu, costs[i].behind = (after.cpu-before.cpu)/n, (after.behind-before.behind)/n
	}
	cost := r.costOf(costs)
	cost.PerSecond = float64(n) / took.Seconds()
	row.Costs[name], row.Error = cost, ""
	r.peak(fmt.Sprintf("%s, %s", name, row.Name), c.server)
	r.say("%s, %s: %d answers, %.1f a second, median %.1f ms", row.Name, name, n, cost.PerSecond, cost.Median)
	return r.save()
}
