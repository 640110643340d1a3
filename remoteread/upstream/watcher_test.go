package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/features"
	"github.com/stretchr/testify/require"
)

// server is a server's API whose answers can be changed. A path without an answer is not
// found; an answer of a number is that status.
type server struct {
	mu      sync.Mutex
	answers map[string]any
	asked   map[string]int
	delay   time.Duration
	url     *url.URL
}

func newServer(t testing.TB) *server {
	s := &server{answers: map[string]any{}, asked: map[string]int{}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		a, ok := s.answers[r.URL.Path]
		delay := s.delay
		s.mu.Unlock()
		time.Sleep(delay)
		code, isCode := a.(int)
		switch {
		case !ok:
			http.NotFound(w, r)
		case isCode:
			http.Error(w, "no", code)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": a})
		}
	}))
	t.Cleanup(h.Close)
	s.url, _ = url.Parse(h.URL)
	return s
}

func (s *server) set(path string, answer any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer == nil {
		delete(s.answers, "/api/v1"+path)
		return
	}
	s.answers["/api/v1"+path] = answer
}

func (s *server) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked["/api/v1"+path]
}

func (s *server) config(external, interval string) {
	s.set("/status/config", map[string]string{"yaml": fmt.Sprintf("global:\n  scrape_interval: 1m\n  evaluation_interval: %s\n  external_labels: {%s}\nscrape_configs: []\n", interval, external)})
}

func (s *server) watch(t testing.TB, o Options) *Watcher {
	o.Base, o.Client, o.Name = s.url, http.DefaultClient, "test"
	w := New(o)
	t.Cleanup(w.Close)
	return w
}

func TestReadsEverything(t *testing.T) {
	s := newServer(t)
	s.config("cluster: eu, n: '1'", "15s")
	s.set("/status/flags", map[string]string{"enable-feature": "promql-experimental-functions,use-start-timestamps,st-storage", "query.lookback-delta": "7m"})
	r := features.NewRegistry()
	r.Enable("promql", "delayed_name_removal")
	r.Disable("promql", "anchored")
	s.set("/features", r.Get())
	s.set("/status/buildinfo", map[string]string{"version": "3.15.0"})
	w := s.watch(t, Options{})
	w.Start(context.Background())
	f := w.Facts()
	require.Equal(t, labels.FromStrings("cluster", "eu", "n", "1"), f.ExternalLabels)
	require.True(t, f.LabelsKnown)
	require.Equal(t, 15*time.Second, f.EvaluationInterval)
	require.Equal(t, 7*time.Minute, f.Lookback)
	require.Equal(t, ExperimentalFunctions|UseStartTimestamps|DelayedNameRemoval, f.Features)
	require.True(t, f.FeaturesKnown)
	require.Equal(t, "3.15.0", f.Version)
	require.Empty(t, f.Unknown)
	require.Equal(t, `external labels {cluster="eu", n="1"}, evaluation interval 15s, lookback delta 7m0s, `+
		`features promql-experimental-functions,promql-delayed-name-removal,use-start-timestamps, version 3.15.0`, f.String())
}

// What a server does not have is not known, and said to be.
func TestServerWithoutAPI(t *testing.T) {
	for name, s := range map[string]func(*server){
		"nothing there":            func(*server) {},
		"another kind of answer":   func(s *server) { s.set("/status/config", "x") },
		"a configuration unlike":   func(s *server) { s.set("/status/config", map[string]string{"yaml": "[1, 2"}) },
		"not for us":               func(s *server) { s.set("/status/config", http.StatusForbidden) },
		"explicitly not available": func(s *server) { s.set("/status/config", http.StatusNotImplemented) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			s(srv)
			w := srv.watch(t, Options{})
			l, err := w.Labels(context.Background())
			require.NoError(t, err)
			require.True(t, l.IsEmpty())
			w.Start(context.Background())
			f := w.Facts()
			require.False(t, f.LabelsKnown)
			require.Zero(t, f.EvaluationInterval)
			require.False(t, f.FeaturesKnown)
			require.Len(t, f.Unknown, 3)
			l, err = w.Confirm(context.Background())
			require.NoError(t, err)
			require.True(t, l.IsEmpty())
		})
	}
}

// A server that does not answer is not taken for one without external labels.
func TestServerThatFails(t *testing.T) {
	s := newServer(t)
	s.set("/status/config", http.StatusServiceUnavailable)
	w := s.watch(t, Options{})
	_, err := w.Labels(context.Background())
	require.ErrorContains(t, err, "503")
	_, err = w.Confirm(context.Background())
	require.ErrorContains(t, err, "503")
	s.config("a: b", "1m")
	l, err := w.Labels(context.Background())
	require.NoError(t, err)
	require.Equal(t, labels.FromStrings("a", "b"), l)
	s.set("/status/config", http.StatusServiceUnavailable)
	_, err = w.Confirm(context.Background())
	require.ErrorContains(t, err, "503", "known once, but perhaps not any more")
}

// Confirm never returns labels that had changed before it was called.
func TestConfirmIsNotLate(t *testing.T) {
	s := newServer(t)
	s.delay = time.Millisecond
	var now atomic.Int64
	s.config("n: '0'", "1m")
	w := s.watch(t, Options{})
	_, err := w.Labels(context.Background())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				least := now.Load()
				l, err := w.Confirm(context.Background())
				require.NoError(t, err)
				var n int64
				_, _ = fmt.Sscan(l.Get("n"), &n)
				require.GreaterOrEqual(t, n, least)
			}
		})
	}
	for n := int64(1); n < 60; n++ {
		s.config(fmt.Sprintf("n: '%d'", n), "1m")
		now.Store(n)
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	require.Less(t, s.count("/status/config"), 8*50, "who asks together is answered together")
}

func TestChangesAreTold(t *testing.T) {
	s := newServer(t)
	s.config("", "1m")
	changed := make(chan struct{}, 10)
	w := s.watch(t, Options{Every: 5 * time.Millisecond, Changed: func() { changed <- struct{}{} }})
	w.Start(context.Background())
	<-changed // it was read
	s.config("", "15s")
	<-changed
	require.Equal(t, 15*time.Second, w.Facts().EvaluationInterval)
	s.set("/status/flags", map[string]string{"enable-feature": "promql-binop-fill-modifiers"})
	<-changed
	require.Equal(t, FillModifiers, w.Facts().Features)
	s.config("a: b", "15s")
	<-changed
	select {
	case <-changed:
		t.Fatal("told of a change that was none")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestOperatorsLabels(t *testing.T) {
	s := newServer(t)
	s.config("a: b", "1m")
	given := labels.FromStrings("c", "d")
	w := s.watch(t, Options{ExternalLabels: &given})
	l, err := w.Confirm(context.Background())
	require.NoError(t, err)
	require.Equal(t, given, l)
	require.Zero(t, s.count("/status/config"))
}

func TestParseFeatures(t *testing.T) {
	f, err := ParseFeatures("promql-experimental-functions, use-start-timestamps,st-storage")
	require.NoError(t, err)
	require.Equal(t, ExperimentalFunctions|UseStartTimestamps, f)
	for _, none := range []string{"", "none"} {
		f, err = ParseFeatures(none)
		require.NoError(t, err)
		require.Zero(t, f)
	}
	_, err = ParseFeatures("promql-magic")
	require.ErrorContains(t, err, `unknown feature "promql-magic"`)
	f, err = ParseFeatures(AllFeatures.String())
	require.NoError(t, err)
	require.Equal(t, AllFeatures, f)
	require.Equal(t, "none", Features(0).String())
	require.Equal(t, ExperimentalFunctions, knownFeatures("promql-experimental-functions,of-a-later-version"))
}
