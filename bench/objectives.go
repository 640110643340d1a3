package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/engine/compare"
)

const (
	rulesAtOnce   = 4           // as a ruler evaluates groups
	wholeRound    = "all rules" // the row of all forms
	untimedRounds = 2           // the first fetches 30 days
)

// ruler evaluates rules round after round, by asking a contender.
type ruler struct {
	*rig
	contender
	rules []queries.Rule
	took  map[string][]cost // by form; of the whole round until the next one begins
}

// objectives has a promwarp on two cores evaluate rules as time goes by, and then Prometheus the same
// rounds, the last one first, as long as the budget allows. Prometheus's answers are the right ones.
func objectives(ctx context.Context, r *rig) error {
	rules := slices.DeleteFunc(queries.Objectives(), func(rule queries.Rule) bool { return !r.match.MatchString(rule.Form) })
	n := untimedRounds + r.shown.Rounds
	if left := time.Until(r.data.end()); left < time.Duration(n)*r.every {
		return fmt.Errorf("the samples in %s end in %s, before the rounds do: remove that folder", r.data.dir, left.Round(time.Second))
	}
	if err := r.prometheus(ctx, 0); err != nil {
		return err
	}
	warp, err := r.started(r.promwarp(ctx, min(2, runtime.NumCPU())))
	if err != nil {
		return err
	}
	r.shown.Contend(report.Prometheus, peers.Promwarp)
	r.shown.Compare(report.Prometheus, peers.Promwarp, "Prometheus ×")
	r.shown.Details = true
	ours := ruler{r, contender{names: []string{peers.Promwarp}, server: warp, behind: r.source}, rules, map[string][]cost{}}
	times, answers := make([]time.Time, n), make([][]*compare.Answer, n)
	for i := range n {
		if i == untimedRounds {
			clear(ours.took)
		}
		times[i] = time.Now().Truncate(time.Millisecond)
		if answers[i], err = ours.round(ctx, times[i], r.every); err != nil {
			return err
		}
	}
	r.peak(peers.Promwarp, warp)
	reference := ruler{r, contender{names: []string{report.Prometheus}, server: r.source}, rules, map[string][]cost{}}
	compared, begin := 0, time.Now()
	for i := n - 1; i >= untimedRounds && (compared == 0 || time.Since(begin) < cmp.Or(r.budget, r.stage.budget)); i-- {
		right, err := reference.round(ctx, times[i], 0)
		if err != nil {
			return err
		}
		compared++
		for k, rule := range rules {
			if difference := answer.Difference(right[k], answers[i][k]); difference != "" {
				r.shown.Row(rule.Form).Wrong = fmt.Sprintf("%s at %s: %s", rule.Expr, times[i].UTC().Format(time.RFC3339), difference)
			}
		}
	}
	r.shown.Row(wholeRound).Note = fmt.Sprintf("same in %d rounds", compared)
	r.peak(report.Prometheus, r.source)
	return r.save()
}

// round evaluates all rules as of a time, those of a form after each other and some at once, and ends
// when a time has passed.
func (u *ruler) round(ctx context.Context, at time.Time, every time.Duration) ([]*compare.Answer, error) {
	answers, begin, before := make([]*compare.Answer, len(u.rules)), time.Now(), spent(u.server, u.behind)
	seconds := strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', -1, 64)
	for from, to := 0, 0; from < len(u.rules); from = to {
		form, started, base := u.rules[from].Form, time.Now(), spent(u.server, u.behind)
		group, asking := errgroup.WithContext(ctx)
		group.SetLimit(rulesAtOnce)
		for ; to < len(u.rules) && u.rules[to].Form == form; to++ {
			i := to
			group.Go(func() error {
				asked := answer.Request{Path: answer.Query, Form: url.Values{"query": {u.rules[i].Expr}, "time": {seconds}}}
				a, err := answer.Ask(asking, u.server.URL, asked, nil)
				if err == nil {
					answers[i], err = a.Parse()
				}
				return err
			})
		}
		if err := cmp.Or(u.alive(), group.Wait()); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", u.names[0], form, err)
		}
		u.note(form, time.Since(started), base, answers[from:to])
	}
	wall := time.Since(begin)
	if err := sleep(ctx, every-wall); err != nil {
		return nil, err
	}
	u.note(wholeRound, wall, before, answers)
	u.say("%s: %.0f ms; on cores, by the median until now, %.0f ms", u.names[0], wall.Seconds()*1000, u.shown.Row(wholeRound).Costs[u.names[0]].CPU)
	return answers, nil
}

// note puts what rules took, before which the servers had spent something, into their row.
func (u *ruler) note(name string, wall time.Duration, before cost, answers []*compare.Answer) {
	after, row := spent(u.server, u.behind), u.shown.Row(name)
	u.took[name] = append(u.took[name], cost{wall: wall, cpu: after.cpu - before.cpu, behind: after.behind - before.behind})
	row.Costs[u.names[0]] = u.costOf(u.took[name])
	row.Points, row.Wrong, row.Note = 0, "", "same"
	for _, a := range answers {
		row.Points += answer.Points(a)
	}
}
