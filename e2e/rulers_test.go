//go:build clients

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// exampleCommand is the command of a service in examples/rules/compose.yaml, with other values of some flags.
func exampleCommand(t *testing.T, service string, values map[string]string) []string {
	t.Helper()
	text, err := os.ReadFile("../examples/rules/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct{ Command []string }
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	args := file.Services[service].Command
	changed := 0
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if value, other := values[name]; other {
			args[i] = name + "=" + value
			changed++
		}
	}
	require.Equal(t, len(values), changed, "flags of %s", service)
	return args
}

// chainDelay is what the offset of a minute in the rules is in tests: Thanos Ruler sends what it recorded every 15 s.
const chainDelay = 20 * time.Second

// writeRules writes examples/rules/rules.yml into a folder, with seconds for the minutes that alerts wait and
// chainDelay for the offset, and returns the file and its groups.
func writeRules(t *testing.T) (file string, groups []rulefmt.RuleGroup) {
	t.Helper()
	text, err := os.ReadFile("../examples/rules/rules.yml")
	require.NoError(t, err)
	text = regexp.MustCompile(`(for: \d+)m`).ReplaceAll(text, []byte("${1}s"))
	text = bytes.ReplaceAll(text, []byte("offset 1m"), []byte("offset "+chainDelay.String()))
	file = filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var parsed struct{ Groups []rulefmt.RuleGroup }
	require.NoError(t, yaml.Unmarshal(text, &parsed))
	require.Len(t, parsed.Groups, 2)
	return file, parsed.Groups
}

// ruled is what rulers ask: a Prometheus with hours of samples up to some minutes ahead, which scrapes itself
// each second, and a promwarp in front of it.
type ruled struct {
	up, pw *process
	grpc   string // the promwarp's address for gRPC
}

func startRuled(t *testing.T, settings string) *ruled {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	r := &ruled{grpc: mustFreeAddr(t)}
	generator, err := dataset.New(dataset.Options{Start: now.Add(-8 * time.Hour).UnixMilli(), End: now.Add(time.Hour).UnixMilli(), Series: 500, Seed: 2})
	require.NoError(t, err)
	dir, addr := t.TempDir(), mustFreeAddr(t)
	require.NoError(t, generator.WriteBlocks(t.Context(), dir, now.Add(-10*time.Minute).UnixMilli(), func(float64) {}))
	config := settings + "scrape_configs: [{job_name: self, scrape_interval: 1s, static_configs: [{targets: ['" + addr + "']}]}]\n"
	args := append(programs.PrometheusArgs(addr, dir, writeConfig(t, config)), "--web.enable-remote-write-receiver")
	r.up = runServer(t, "Prometheus", addr, prometheusBin, args...)
	require.NoError(t, generator.Write(t.Context(), programs.RemoteWrite(r.up.URL), now.Add(9*time.Minute).UnixMilli()))
	addr = mustFreeAddr(t)
	r.pw = runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, r.up.URL), "--grpc.listen-address="+r.grpc)...)
	return r
}

// receiver takes remote writes of a ruler, and hands them on to a Prometheus where it has one.
type receiver struct {
	URL string

	mu      sync.Mutex
	samples map[string]map[int64]float64 // by series and time in ms
	arrived map[int64]int64              // by time in ms, when the last sample of that time had been handed on
}

// late tells whether chains that were evaluated at a time may have missed what was recorded before.
func (r *receiver) late(at int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, arrived := range r.arrived {
		if of <= at-chainDelay.Milliseconds() && arrived > at {
			return true
		}
	}
	return false
}

func newReceiver(t *testing.T, forwardTo string) *receiver {
	t.Helper()
	r := &receiver{samples: map[string]map[int64]float64{}, arrived: map[int64]int64{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || req.Header.Get("Content-Encoding") != "snappy" {
			http.Error(w, "snappy alone", http.StatusUnsupportedMediaType)
			return
		}
		if forwardTo != "" {
			forwarded, err := http.NewRequestWithContext(req.Context(), http.MethodPost, forwardTo+"/api/v1/write", bytes.NewReader(body))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			forwarded.Header = req.Header.Clone()
			resp, err := client.Do(forwarded)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				t.Errorf("a ruler's remote write: %s: %s", resp.Status, said)
				http.Error(w, string(said), resp.StatusCode)
				return
			}
		}
		raw, err := snappy.Decode(nil, body)
		var message prompb.WriteRequest
		if err == nil {
			err = message.Unmarshal(raw)
		}
		if err != nil {
			t.Errorf("a ruler's remote write: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range message.Timeseries {
			builder := labels.NewScratchBuilder(len(s.Labels))
			for _, l := range s.Labels {
				if l.Name != "alertgroup" { // which vmalert adds
					builder.Add(l.Name, l.Value)
				}
			}
			builder.Sort()
			name := builder.Labels().String()
			if r.samples[name] == nil {
				r.samples[name] = map[int64]float64{}
			}
			for _, one := range s.Samples {
				r.arrived[one.Timestamp] = time.Now().UnixMilli()
				// Two requests of a replay have the step between them both, in any order, and alerts that
				// wait for nothing begin anew with each: the earlier begin counts.
				if v, twice := r.samples[name][one.Timestamp]; !twice || one.Value < v {
					r.samples[name][one.Timestamp] = one.Value
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// at returns the samples of a metric, by time and then series. At a time at which there are only stale markers
// there is an entry without series.
func (r *receiver) at(metric string) map[int64]map[string]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int64]map[string]float64{}
	for series, samples := range r.samples {
		if !strings.HasPrefix(series, `{__name__="`+metric+`"`) {
			continue
		}
		for t, v := range samples {
			if out[t] == nil {
				out[t] = map[string]float64{}
			}
			if !value.IsStaleNaN(v) {
				out[t][series] = v
			}
		}
	}
	return out
}

// evaluated are the times at which a ruler evaluated the alerts: those of Watchdog's samples.
func (r *receiver) evaluated() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for series, samples := range r.samples {
		if strings.HasPrefix(series, `{__name__="ALERTS"`) && strings.Contains(series, `alertname="Watchdog"`) && strings.Contains(series, `alertstate="firing"`) {
			return slices.Sorted(maps.Keys(samples))
		}
	}
	return nil
}

// notified is an Alertmanager that keeps the labels, annotations and starts of alerts.
type notified struct {
	URL string

	mu     sync.Mutex
	alerts map[string]bool
}

func newAlertmanager(t *testing.T) *notified {
	t.Helper()
	n := &notified{alerts: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var alerts []struct {
			Labels, Annotations map[string]string
			StartsAt            time.Time
		}
		if err := json.NewDecoder(req.Body).Decode(&alerts); err != nil || !strings.HasSuffix(req.URL.Path, "/api/v2/alerts") {
			t.Errorf("alerts at %s: %v", req.URL, err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, a := range alerts {
			delete(a.Labels, "alertgroup")
			text, err := json.Marshal([]any{a.Labels, a.Annotations, a.StartsAt.UnixMilli()})
			if err != nil {
				t.Error(err)
			}
			n.alerts[string(text)] = true
		}
	}))
	t.Cleanup(server.Close)
	n.URL = server.URL
	return n
}

// of are the alerts whose text has a word in it.
func (n *notified) of(word string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(n.alerts)), func(a string) bool { return !strings.Contains(a, word) })
}

// ruler is one of several that run the same rules.
type ruler struct {
	*receiver
	*notified
	wholeSeconds bool      // it asks for the second in which an evaluation is
	chains       *receiver // through which what chains read gets to the server; nil where it is there at once
}

// requireRecorded requires what a ruler recorded during an incident to be what a server answers as of each of the times of
// evaluation, bit for bit. Chains are asked of another server, which has what was recorded. It returns the number of
// samples by rule.
func (r *ruler) requireRecorded(t *testing.T, groups []rulefmt.RuleGroup, server, chains string, during incident) map[string]int {
	t.Helper()
	counts, times, late := map[string]int{}, map[int64]bool{}, 0
	for _, rule := range groups[0].Rules {
		for at := range r.at(rule.Record) {
			times[at] = true
		}
	}
	maps.DeleteFunc(times, func(at int64, _ bool) bool { return at < during.from || at > during.to })
	for _, rule := range groups[0].Rules {
		from, isChain := server, strings.Contains(rule.Expr, ":")
		if isChain {
			from = chains
		}
		recorded := r.at(rule.Record)
		for at := range times {
			if isChain && r.chains != nil && r.chains.late(at) {
				late++
				continue
			}
			asOf := time.UnixMilli(at)
			if r.wholeSeconds {
				asOf = asOf.Truncate(time.Second)
			}
			want := asRecorded(t, rule, ask(t, from, queryPath, instantForm(rule.Expr, asOf)))
			require.Equal(t, bits(want), bits(recorded[at]), "%s at %d, in %d evaluations", rule.Record, at, len(times))
			counts[rule.Record] += len(want)
		}
	}
	t.Log(late, "evaluations of chains left out: remote write was late")
	if during.round != "" {
		r.receiver.mu.Lock()
		defer r.receiver.mu.Unlock()
		backup := r.samples[`{__name__="job:up:sum", job="backup"}`]
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(backup)), value.IsStaleNaN), "a recorded series ends")
	}
	return counts
}

// asRecorded is a vector as a rule records it.
func asRecorded(t *testing.T, rule rulefmt.Rule, a answer) map[string]float64 {
	t.Helper()
	parsed, err := a.parse()
	require.NoError(t, err)
	require.Equal(t, "vector", parsed.Data.ResultType, "%s", a.body)
	var vector []series
	require.NoError(t, json.Unmarshal(parsed.Data.Result, &vector))
	out := map[string]float64{}
	for _, s := range vector {
		l := labels.NewBuilder(labels.FromMap(s.Metric)).Set("__name__", rule.Record)
		for name, value := range rule.Labels {
			l.Set(name, value)
		}
		out[l.Labels().String()], err = strconv.ParseFloat(s.Value.v, 64)
		require.NoError(t, err)
	}
	return out
}

func bits(of map[string]float64) map[string]uint64 {
	out := map[string]uint64{}
	for name, v := range of {
		out[name] = math.Float64bits(v)
	}
	return out
}

// incident is what the samples of one round say: an instance is down for ten seconds, another for three, the metric
// of a backup goes away after ten, and all of them after 24. All is in the server before rulers get there.
type incident struct {
	round    string
	from, to int64
}

func (r *ruled) incident(t *testing.T, round int) incident {
	t.Helper()
	start := time.Now().Truncate(time.Second).Add(2 * time.Second)
	one := incident{fmt.Sprint("round-", round), start.UnixMilli(), start.Add(26 * time.Second).UnixMilli()}
	app := programs.RemoteWrite(r.up.URL).Appender(t.Context())
	write := func(l labels.Labels, valueAt func(second int) float64) {
		for second := range 25 {
			v := valueAt(second)
			_, err := app.Append(0, l, start.Add(time.Duration(second)*time.Second).UnixMilli(), v)
			require.NoError(t, err)
			if value.IsStaleNaN(v) {
				return
			}
		}
	}
	stale := math.Float64frombits(value.StaleNaN)
	upUntil := func(down, up int) func(int) float64 {
		return func(second int) float64 {
			switch {
			case second == 24:
				return stale
			case second >= down && second < up:
				return 0
			}
			return 1
		}
	}
	write(labels.FromStrings("__name__", "up", "job", "backup", "instance", "down-for-long", "round", one.round), upUntil(3, 13))
	write(labels.FromStrings("__name__", "up", "job", "backup", "instance", "down-for-short", "round", one.round), upUntil(5, 8))
	write(labels.FromStrings("__name__", "backup_last_success_timestamp_seconds", "job", "backup", "round", one.round), func(second int) float64 {
		if second == 10 {
			return stale
		}
		return float64(start.Unix())
	})
	require.NoError(t, app.Commit())
	return one
}

// compareRulers has rulers, which run already, see an incident, and requires that the states of alerts are those
// of the one that asks the server directly, at the same times, and so are the alerts that are sent. A round in which
// one of them skipped an evaluation, as on a machine that others use, says nothing, and there is another one. It
// returns the incident, of which all has been recorded.
func compareRulers(t *testing.T, on *ruled, direct *ruler, through ...*ruler) incident {
	t.Helper()
	all := append([]*ruler{direct}, through...)
	for round := range 4 {
		for _, r := range all {
			before := len(r.evaluated())
			require.Eventually(t, func() bool { return len(r.evaluated()) >= before+10 }, time.Minute, 100*time.Millisecond, "a ruler evaluates")
		}
		one := on.incident(t, round)
		for _, r := range all {
			require.Eventually(t, func() bool {
				times := r.evaluated()
				return times[len(times)-1] > one.to+2000
			}, 2*time.Minute, 100*time.Millisecond, "a ruler evaluates until the end of the incident")
		}
		within := func(r *ruler) []int64 {
			return slices.DeleteFunc(r.evaluated(), func(at int64) bool { return at < one.from || at > one.to })
		}
		times := within(direct)
		if len(times) < 26 || slices.ContainsFunc(through, func(r *ruler) bool { return !slices.Equal(times, within(r)) }) {
			t.Logf("%s: %d evaluations, or others at other times; once more", one.round, len(times))
			continue
		}
		for _, r := range through {
			one.requireSameStates(t, times, direct, r)
		}
		return one
	}
	t.Fatal("the rulers never evaluated at the same times")
	return incident{}
}

var alertState = regexp.MustCompile(`alertname="(\w+)", alertstate="(\w+)"(?:.*instance="(down-for-\w+)")?`)

// requireSameStates requires of two rulers' alerts the same states at all of the times, and the states that the
// incident should have.
func (one incident) requireSameStates(t *testing.T, times []int64, direct, through *ruler) {
	t.Helper()
	want, got := direct.at("ALERTS"), through.at("ALERTS")
	wantSince, gotSince := direct.at("ALERTS_FOR_STATE"), through.at("ALERTS_FOR_STATE")
	states := map[string]int{} // evaluations, by alert and state
	for _, at := range times {
		require.Equal(t, bits(want[at]), bits(got[at]), "alerts at %d, %s", at, one.round)
		// An alert that is older than the incident may have been seen first at another time.
		older := func(_ string, since float64) bool { return int64(since)*1000 < one.from }
		maps.DeleteFunc(wantSince[at], older)
		maps.DeleteFunc(gotSince[at], older)
		require.Equal(t, bits(wantSince[at]), bits(gotSince[at]), "begin of alerts at %d, %s", at, one.round)
		for name := range got[at] {
			if m := alertState.FindStringSubmatch(name); m[3] == "" || strings.Contains(name, one.round) {
				states[strings.Join(m[1:], " ")]++
			}
		}
	}
	t.Log(one.round, states)
	// Down from second 3 to 13: pending for 5 s, firing for 5, and 3 more.
	require.Positive(t, states["InstanceDown pending down-for-short"])
	require.Zero(t, states["InstanceDown firing down-for-short"])
	require.InDelta(t, 5, states["InstanceDown pending down-for-long"], 1)
	require.InDelta(t, 8, states["InstanceDown firing down-for-long"], 2)
	require.InDelta(t, 16, states["BackupMissing firing "], 2)
	require.Positive(t, states["ErrorBudgetBurn firing "])
	require.Eventually(t, func() bool {
		return len(through.of(one.round)) > 0 && slices.Equal(direct.of(one.round), through.of(one.round))
	}, 30*time.Second, 100*time.Millisecond, "alerts are sent")
	require.Contains(t, through.of(one.round)[0], "down-for-long of backup is down (up is 0)")
}

// liveVMAlert starts one that asks source every second, with more flags.
func liveVMAlert(t *testing.T, rules, source string, r *ruler, flags ...string) {
	t.Helper()
	vmalert(t, append(exampleCommand(t, "vmalert", map[string]string{
		"-rule": rules, "-datasource.url": source, "-remoteWrite.url": r.receiver.URL, "-notifier.url": r.notified.URL, "-evaluationInterval": "1s",
	}), append(flags, "-remoteWrite.flushInterval=1s")...)...)
}

// vmalert starts one with flags.
func vmalert(t *testing.T, flags ...string) *process {
	t.Helper()
	bin, err := buildVictoriaMetrics("vmalert", victoriaMetricsModule)
	require.NoError(t, err)
	addr := mustFreeAddr(t)
	p, err := start("vmalert", addr, bin, append([]string{"-httpListenAddr=" + addr}, flags...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of vmalert's output:\n%s", p.Log.Tail())
		}
	})
	return p
}

// TestRulersVMAlert: vmalert records and alerts through promwarp what it does from Prometheus, live. What it
// sends that VictoriaMetrics alone knows changes nothing.
func TestRulersVMAlert(t *testing.T) {
	on := startRuled(t, "")
	file, groups := writeRules(t)
	run := func(source, forwardTo string) *ruler {
		r := &ruler{newReceiver(t, forwardTo), newAlertmanager(t), false, nil}
		liveVMAlert(t, file, source, r, "-datasource.roundDigits=3", "-datasource.queryStep=7s", "-datasource.headers=X-Scope-OrgID:rules^^VL-Debug:1")
		return r
	}
	through, direct := run(on.pw.URL, on.up.URL), run(on.up.URL, "")
	during := compareRulers(t, on, direct, through)
	through.chains = through.receiver
	requireAllRecorded(t, groups, through.requireRecorded(t, groups, on.up.URL, on.up.URL, during))
	// What it would restore alerts with is MetricsQL.
	restore := ask(t, on.pw.URL, queryPath, instantForm(`default_rollup(ALERTS_FOR_STATE{alertname="InstanceDown"}[3600s])`, time.Now()))
	require.Equal(t, http.StatusBadRequest, restore.code, "%s", restore.body)
}

// thanosRuler starts a stateless one with the flag of what it asks.
func thanosRuler(t *testing.T, bin, rules, source string, r *ruler) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	// Times of evaluation follow from the path of the rules, which is below the data directory: it is the same for
	// all rulers as seen from where they run.
	args := exampleCommand(t, "thanos", map[string]string{
		"--rule-file": rules, "--alertmanagers.url": r.notified.URL, "--eval-interval": "1s",
		"--remote-write.config": "remote_write: [{url: '" + r.receiver.URL + "', queue_config: {batch_send_deadline: 1s}}]",
	})
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--query=") })
	args = append(args, source, "--http-address="+addr, "--grpc-address="+mustFreeAddr(t), "--for-grace-period=1s", "--query.sd-dns-interval=1s")
	return runServer(t, "Thanos Ruler", addr, "env", append([]string{"-C", t.TempDir(), bin}, args...)...)
}

// TestRulersThanos: a stateless Thanos Ruler records and alerts through promwarp, over HTTP and over gRPC, what it
// does from Prometheus.
func TestRulersThanos(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	on := startRuled(t, "")
	file, groups := writeRules(t)
	servers := map[*ruler]*process{}
	run := func(source, forwardTo string) *ruler {
		r := &ruler{newReceiver(t, forwardTo), newAlertmanager(t), false, nil}
		servers[r] = thanosRuler(t, bin, file, source, r)
		return r
	}
	through, direct := run("--query="+on.pw.URL, on.up.URL), run("--query="+on.up.URL, "")
	overGRPC := run("--grpc-query-endpoint="+on.grpc, "")
	overGRPC.wholeSeconds = true
	through.chains, overGRPC.chains = through.receiver, through.receiver
	during := compareRulers(t, on, direct, through, overGRPC)
	requireAllRecorded(t, groups, through.requireRecorded(t, groups, on.up.URL, on.up.URL, during))
	requireAllRecorded(t, groups, overGRPC.requireRecorded(t, groups, on.up.URL, on.up.URL, during))

	// One that starts anew asks promwarp since when alerts wait.
	servers[through].Kill()
	began := func() (since float64, at int64) {
		samples := through.at("ALERTS_FOR_STATE")
		at = slices.Max(slices.Collect(maps.Keys(samples)))
		for name, v := range samples[at] {
			if strings.Contains(name, "ErrorBudgetBurn") {
				since = max(since, v)
			}
		}
		return since, at
	}
	before, last := began()
	require.Positive(t, before)
	thanosRuler(t, bin, file, "--query="+on.pw.URL, through)
	require.Eventually(t, func() bool {
		since, at := began()
		return at > last && since == before
	}, time.Minute, 100*time.Millisecond, "alerts go on")
}

// TestRulersPrometheus: a Prometheus whose rules read samples from promwarp records and alerts as one whose rules
// read them from the Prometheus behind it. Its chains read what it recorded itself.
func TestRulersPrometheus(t *testing.T) {
	on := startRuled(t, "")
	file, groups := writeRules(t)
	servers := map[*ruler]*process{}
	run := func(source string) *ruler {
		r := &ruler{newReceiver(t, ""), newAlertmanager(t), false, nil}
		servers[r] = prometheus(t, mustFreeAddr(t), t.TempDir(), rulerConfig(t, file, source, r))
		return r
	}
	through, direct := run(on.pw.URL), run(on.up.URL)
	during := compareRulers(t, on, direct, through)
	requireAllRecorded(t, groups, through.requireRecorded(t, groups, on.up.URL, servers[through].URL, during))
	requireAllRecorded(t, groups, direct.requireRecorded(t, groups, on.up.URL, servers[direct].URL, during))
}

// rulerConfig is examples/rules/prometheus.yml for a source of samples, rules each second, and where a ruler's
// samples and alerts go.
func rulerConfig(t *testing.T, rules, source string, r *ruler) string {
	t.Helper()
	text, err := os.ReadFile("../examples/rules/prometheus.yml")
	require.NoError(t, err)
	alertmanager := strings.TrimPrefix(r.notified.URL, "http://")
	for from, to := range map[string]string{
		"http://promwarp:9201": source, "alertmanager:9093": alertmanager, "/etc/prometheus/rules.yml": rules,
		"evaluation_interval: 1m": "evaluation_interval: 1s",
	} {
		require.Contains(t, string(text), from)
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	return string(text) + "remote_write: [{url: '" + r.receiver.URL + "', queue_config: {batch_send_deadline: 1s}}]\n"
}

// TestRulersReplay: vmalert's replay of three hours through promwarp writes the samples that it writes from
// Prometheus, bit for bit, chains and alerts too.
func TestRulersReplay(t *testing.T) {
	on := startRuled(t, "storage: {tsdb: {out_of_order_time_window: 12h}}\n")
	file, groups := writeRules(t)
	from := time.Now().Add(-200 * time.Minute).Truncate(time.Minute)
	run := func(source, forwardTo string) *ruler {
		r := &ruler{newReceiver(t, forwardTo), nil, false, nil}
		p := vmalert(t, "-rule="+file, "-datasource.url="+source, "-remoteWrite.url="+r.receiver.URL, "-evaluationInterval=1m",
			"-replay.timeFrom="+from.UTC().Format(time.RFC3339), "-replay.timeTo="+from.Add(3*time.Hour).UTC().Format(time.RFC3339),
			"-replay.maxDatapointsPerQuery=50", "-replay.disableProgressBar", "-remoteWrite.flushInterval=100ms", "-replay.rulesDelay=1s")
		require.Zero(t, p.wait(t, 2*time.Minute), p.Log.Tail())
		return r
	}
	through := run(on.pw.URL, on.up.URL)
	direct := run(on.up.URL, "")
	for _, metric := range []string{"ALERTS", "ALERTS_FOR_STATE"} {
		want, got := direct.at(metric), through.at(metric)
		require.Greater(t, len(want), 170, metric)
		require.Equal(t, want, got, metric)
	}
	for _, rule := range groups[0].Rules {
		want, got := direct.at(rule.Record), through.at(rule.Record)
		require.Equal(t, len(want), len(got), rule.Record)
		for at := range want {
			require.Equal(t, bits(want[at]), bits(got[at]), "%s at %d", rule.Record, at)
		}
	}
	counts := through.requireRecorded(t, groups, on.up.URL, on.up.URL, incident{to: math.MaxInt64})
	counts["handler:prometheus_http_requests:rate5m"] += 100 // which were not there yet
	requireAllRecorded(t, groups, counts)
}

// requireAllRecorded requires several samples of each rule.
func requireAllRecorded(t *testing.T, groups []rulefmt.RuleGroup, counts map[string]int) {
	t.Helper()
	t.Log("samples that are the same", counts)
	for _, rule := range groups[0].Rules {
		require.Greater(t, counts[rule.Record], 5, rule.Record)
	}
}

// TestRulersMimir: promwarp answers the requests that Mimir's ruler makes of an http:// address in a form that it
// takes: it wants these very content types, and asks for a protobuf of its own first.
func TestRulersMimir(t *testing.T) {
	g := smallGrid(2)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 2), "")
	pw := promwarp(t, up.URL)
	request := func(path string, body []byte, headers ...string) (*http.Response, []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, pw.URL+path, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Scope-OrgID", "a-tenant")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", said)
		return resp, said
	}
	const query = "sum by (job) (rate(http_requests_total[5m]))"
	form := url.Values{"query": {query}, "time": {g.end.UTC().Format(time.RFC3339Nano)}}
	resp, said := request("/api/v1/query", []byte(form.Encode()),
		"Content-Type", "application/x-www-form-urlencoded", "Accept", "application/vnd.mimir.queryresponse+protobuf,application/json")
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	want := ask(t, up.URL, queryPath, instantForm(query, g.end))
	require.NotContains(t, string(want.body), `"result":[]`)
	requireSame(t, want, answer{resp.StatusCode, said}, false, query)

	read, err := (&prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: g.end.Add(-time.Hour).UnixMilli(), EndTimestampMs: g.end.UnixMilli(),
		Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "up"}},
	}}}).Marshal()
	require.NoError(t, err)
	resp, said = request("/api/v1/read", snappy.Encode(nil, read), "Content-Encoding", "snappy", "Accept-Encoding", "snappy",
		"Content-Type", "application/x-protobuf", "X-Prometheus-Remote-Read-Version", "0.1.0")
	require.Equal(t, "application/x-protobuf", resp.Header.Get("Content-Type"))
	raw, err := snappy.Decode(nil, said)
	require.NoError(t, err)
	var samples prompb.ReadResponse
	require.NoError(t, samples.Unmarshal(raw))
	require.Len(t, samples.Results, 1)
	require.NotEmpty(t, samples.Results[0].Timeseries)
}
