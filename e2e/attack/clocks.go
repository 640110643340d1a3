package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/promwarp/promwarp/internal/dataset"
)

// A clock that jumps looks to promwarp as data and queries of another time than its own. The data
// may be of the future, and the times that are asked for may be any.

// future asks of a Prometheus whose data goes on for six hours from now, as one whose clock is ahead
// has, before and after a restart.
func future(ctx context.Context, w *workshop) (v verdict) {
	ahead := &servers{dir: filepath.Join(w.dir, "ahead"), end: w.end.Add(6 * time.Hour)}
	o := dataset.Options{Start: ahead.end.Add(-9 * time.Hour).UnixMilli(), End: ahead.end.UnixMilli(), Series: 500, Seed: 5}
	if _, err := dataset.WriteBlocks(ctx, ahead.dataDir(), o, nil); err != nil {
		v.breaks("%v", err)
		return v
	}
	if err := ahead.startPrometheus(w.prometheus.Cmd.Path); err != nil {
		v.breaks("%v", err)
		return v
	}
	defer ahead.stop()
	one := &workshop{servers: ahead, bin: w.bin, disk: w.disk, want: map[string]string{}}
	env := *w.env
	env.start, env.end = ahead.end.Add(-8*time.Hour), ahead.end
	one.env = &env
	if err := one.learn(ctx); err != nil {
		v.breaks("%v", err)
		return v
	}
	one.checked(ctx, &v, "at first")
	m := one.checked(ctx, &v, "after a restart")
	v.figures = fmt.Sprintf("data until 6 h from now; %.0f tiles came from disk", m["promwarp_cache_disk_restored_tiles_total"])
	return v
}

// farTimes are times that a clock or a client may have.
var farTimes = []string{
	"0", "-1", "1", "253402300799", "9223372036854775.807", "-9223372036854775.808", "292277025-08-18T07:12:54.999999999Z",
	"4102444800", "-62135596800", "NaN", "Inf", "1e308", "9223372036854775", "1970-01-01T00:00:00Z",
}

// farAway asks for such times and compares with the Prometheus, then kills it and asks for today.
func farAway(ctx context.Context, w *workshop) (v verdict) {
	p, s, err := w.begin()
	if err != nil {
		v.breaks("it does not start: %v", err)
		return v
	}
	defer p.Kill()
	same := 0
	ref, err := newServer(w.prometheus.URL, "")
	if err != nil {
		v.breaks("%v", err)
		return v
	}
	for _, t := range farTimes {
		same += w.compared(ctx, s, ref, &v, "/api/v1/query", url.Values{"query": {"sum(up)"}, "time": {t}, "timeout": {"10s"}})
		for _, q := range []string{"sum(rate(up[5m] offset -100y))", "sum(up @ 9223372036854775)", "count(up[1000y])", "sum(max_over_time(up[10y:1h]))"} {
			same += w.compared(ctx, s, ref, &v, "/api/v1/query", url.Values{"query": {q}, "time": {t}, "timeout": {"10s"}})
		}
		same += w.compared(ctx, s, ref, &v, "/api/v1/query_range", url.Values{"query": {"sum(up)"}, "start": {t}, "end": {t}, "step": {"60"}})
		same += w.compared(ctx, s, ref, &v, "/api/v1/query_range", url.Values{"query": {"sum(up)"}, "start": {"0"}, "end": {t}, "step": {"1e9"}})
		same += w.compared(ctx, s, ref, &v, "/api/v1/query_range", url.Values{"query": {"sum(up)"}, "start": {t}, "end": {"9223372036854775"}, "step": {"9e9"}})
	}
	if p.Ended() {
		v.breaks("it ended:\n%s", p.Log.Tail())
	}
	w.right(ctx, s, &v, "after far times")
	p.Kill()
	w.checked(ctx, &v, "after a restart")
	v.figures = fmt.Sprintf("%d answers are Prometheus's", same)
	return v
}

// compared is 1 if both answer the same.
func (w *workshop) compared(ctx context.Context, s, ref *server, v *verdict, path string, form url.Values) int {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	got, want := s.post(ctx, path, form), ref.post(ctx, path, form)
	if got.err == nil && got.code == want.code && (got.head == want.head || !got.ok()) {
		return 1
	}
	v.breaks("%s: %s, Prometheus: %s", form.Encode(), got, want)
	return 0
}
