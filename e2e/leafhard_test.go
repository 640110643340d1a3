//go:build clients

package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/engine/compare"
)

// lossy is a proxy that emulates a network which loses a part of all packets. What comes after a lost one waits
// until TCP sends that again; now and then a connection is lost with it.
type lossy struct {
	net.Listener
	target        string
	lost, resets  atomic.Int64
	packets       atomic.Int64
	connections   sync.Map // those that are open
	random        func(n int) int
	randomIsInUse sync.Mutex
}

const (
	packet       = 1448                   // bytes of TCP's payload
	lossOf       = 100                    // one in as many packets is lost
	retransmits  = 200 * time.Millisecond // Linux's least timeout until one is sent again
	resetsOf     = 8                      // one in as many losses ends the connection
	lossyTimeout = 10 * time.Second       // of a query
)

// startLossy starts a proxy to an address.
func startLossy(t *testing.T, target string, seed uint64) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossy{Listener: l, target: target, random: mathrand.New(mathrand.NewPCG(seed, 2)).IntN}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.connections.Range(func(conn, _ any) bool {
			conn.(net.Conn).Close()
			return true
		})
		all.Wait()
	})
	return p
}

// one reports whether this is one in n.
func (p *lossy) one(n int) bool {
	p.randomIsInUse.Lock()
	defer p.randomIsInUse.Unlock()
	return p.random(n) == 0
}

// serve passes a connection on, in both directions.
func (p *lossy) serve(from *net.TCPConn) {
	defer from.Close()
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	to := conn.(*net.TCPConn)
	defer to.Close()
	for _, c := range []*net.TCPConn{from, to} {
		p.connections.Store(c, true)
		defer p.connections.Delete(c)
		_ = c.SetLinger(0)
	}
	var both sync.WaitGroup
	pass := func(to, from *net.TCPConn) {
		defer to.Close()
		defer from.Close()
		buf := make([]byte, packet)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			p.packets.Add(1)
			if p.one(lossOf) {
				p.lost.Add(1)
				if p.one(resetsOf) {
					p.resets.Add(1)
					return
				}
				time.Sleep(retransmits)
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}

// partOf says which series of an answer another does not have, with the same samples.
func partOf(whole, part *compare.Answer) error {
	key := func(s *compare.Series) string { return s.Labels.String() }
	for _, s := range part.Series {
		i := slices.IndexFunc(whole.Series, func(w compare.Series) bool { return key(&w) == key(&s) })
		if i < 0 {
			return fmt.Errorf("a series that there is not: %s", s.Labels)
		}
		w := &compare.Answer{Type: whole.Type, Series: whole.Series[i : i+1]}
		if d := compare.Differ(w, &compare.Answer{Type: part.Type, Series: []compare.Series{s}}, 1e-12); d != nil {
			return fmt.Errorf("%s: %s", s.Labels, d)
		}
	}
	return nil
}

// TestLeafLosesPackets: through a network that loses one of a hundred packets, and connections at times, an answer
// is right, an error, or, with partial response, right but for what a warning says is missing; none takes longer
// than its timeout.
func TestLeafLosesPackets(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	rounds, err := envInt("E2E_LOSSY", 12)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	f := startFleet(t)
	var addresses, strict []string
	var lossyLeaf *lossy
	for i, up := range f.regions {
		_, grpc := leaf(t, up.URL)
		if regions[i] == "eu" {
			lossyLeaf = startLossy(t, grpc, uint64(seed))
			// Of a leaf that does not say what it is for a moment a Querier answers without a word, if it is not strict.
			strict = append(strict, "--endpoint-strict="+lossyLeaf.Addr().String())
			continue
		}
		addresses = append(addresses, grpc)
	}
	root := querier(t, bin, addresses, append(append(slices.Clone(distributed), "--query.timeout=1m"), strict...)...)
	require.Eventually(t, func() bool {
		return strings.Contains(fetch(t, root.URL+"/api/v1/stores"), `"region":"eu"`)
	}, time.Minute, 100*time.Millisecond, "the leaf is known")
	r := mathrand.New(mathrand.NewPCG(uint64(seed), 1))
	counts := map[string]int{}
	for range int(rounds) {
		for _, q := range []string{
			`sum by (region, job) (rate(requests_total[5m]))`, `load{region="eu"}`, `max by (region, instance, job) (load)`, `count by (region, __name__) ({__name__=~".+"})`,
			`sum by (region) (load) / count by (region) (load)`,
		} {
			step := time.Duration(1+r.IntN(4)) * time.Second
			form := grid{f.end.Add(-time.Hour), f.end, step}.rangeForm(q)
			want := parsed(t, ask(t, f.all.URL, rangePath, form), false)
			require.NoError(t, want.Err)
			require.NotEmpty(t, want.Series, q)
			partial := fmt.Sprint(r.IntN(2) == 0)
			form.Set("partial_response", partial)
			form.Set("timeout", lossyTimeout.String())
			began := time.Now()
			a := ask(t, root.URL, rangePath, form)
			require.Less(t, time.Since(began), lossyTimeout+5*time.Second, q)
			got := parsed(t, a, false)
			want.Sort()
			got.Sort() // Thanos has what it matches in any order
			missing := got.Err == nil && strings.Contains(fmt.Sprint(got.Warnings), "remote query error")
			switch {
			case got.Err != nil:
				counts["errors"]++
				require.Regexp(t, "remote exec error|Unavailable|deadline|timed out|receive series", string(a.body), q)
			case missing:
				require.Equal(t, "true", partial, "%v", got.Warnings)
				require.NoError(t, partOf(want, got), q)
				counts["partial"]++
			default:
				require.NoError(t, differs(want, got, 1e-12), "%s, partial response %s: %.1000s\n%s", q, partial, a.body, fetch(t, root.URL+"/api/v1/stores"))
				counts["right"]++
			}
		}
	}
	t.Logf("%d packets, %d lost, %d connections with them: %v", lossyLeaf.packets.Load(), lossyLeaf.lost.Load(), lossyLeaf.resets.Load(), counts)
	require.Greater(t, counts["right"], int(rounds))
	require.Positive(t, lossyLeaf.lost.Load())
	require.Positive(t, lossyLeaf.resets.Load())
}

// smallLeaf starts a Prometheus with some hours of data, a leaf over it, and a Querier over that.
func smallLeaf(t *testing.T, bin string, g grid, flags ...string) (up, pw, root *process) {
	t.Helper()
	addr := mustFreeAddr(t)
	up = runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, smallData(t, g.end, 6), writeConfig(t, "global: {external_labels: {region: eu}}\n"))...)
	pw, grpc := leaf(t, up.URL, append([]string{"--gpu.mode=off", "--log.queries"}, flags...)...)
	return up, pw, querier(t, bin, []string{grpc}, append(slices.Clone(distributed), "--query.timeout=1m", "--query.max-concurrent=64")...)
}

// TestLeafLimits: a query that needs more memory than the leaf has is refused in promwarp's words, and others are
// answered meanwhile. Queues, timeouts, metrics, logs and /explain are those of HTTP.
func TestLeafLimits(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	g := smallGrid(6)
	whole := func(form url.Values) url.Values {
		form.Set("partial_response", "false")
		return form
	}
	for name, c := range map[string]struct {
		flag, says string
		atOnce     int
	}{
		"memory of a query": {"--query.max-memory=16MiB", "query.max-memory", 1}, "memory of all": {"--query.max-memory=1GiB", "memory.limit", 6},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 64 << 20
			_, pw, root := smallLeaf(t, bin, g, fmt.Sprintf("--memory.limit=%d", limit), c.flag)
			light := whole(instantForm(`sum by (job) (up{region="eu"})`, g.end))
			want := parsed(t, ask(t, root.URL, queryPath, light), false)
			require.NoError(t, want.Err)
			require.NotEmpty(t, want.Series)
			heavy := whole(grid{g.end.Add(-3 * time.Hour), g.end, time.Second}.rangeForm(`quantile(0.9, {__name__=~".+",region="eu"})`))
			stop := make(chan struct{})
			var others sync.WaitGroup
			var answered, failed atomic.Int64
			others.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-t.Context().Done():
						return
					default:
					}
					a, err := post(t.Context(), root.URL, queryPath, light)
					if err != nil || differs(want, parsed(t, a, false), 0) != nil {
						failed.Add(1)
						t.Logf("a light query: %v %s", err, a.body)
					}
					answered.Add(1)
				}
			})
			var all sync.WaitGroup
			var refused atomic.Int64
			for range 6 / c.atOnce {
				for range c.atOnce {
					all.Go(func() {
						a, err := post(t.Context(), root.URL, rangePath, heavy)
						if assert.NoError(t, err) && (a.code != http.StatusOK || c.atOnce == 1) {
							assert.Regexp(t, c.says, string(a.body))
							t.Logf("%d %.400s", a.code, a.body)
							refused.Add(1)
						}
					})
				}
				all.Wait()
			}
			require.Positive(t, refused.Load())
			close(stop)
			others.Wait()
			t.Logf("%d light queries meanwhile", answered.Load())
			require.Zero(t, failed.Load())
			require.Positive(t, answered.Load())
			peak, err := pw.Memory("VmHWM")
			require.NoError(t, err)
			t.Logf("memory at most %d MB", peak>>20)
			require.Less(t, peak, int64(limit+limit/2+64<<20), "with the program's own pages")
		})
	}
	t.Run("queue, time, metrics, logs", func(t *testing.T) {
		up, pw, root := smallLeaf(t, bin, g, "--query.max-concurrency=1", "--query.max-queue=1", "--query.max-queue-time=500ms")
		light := whole(instantForm(`sum by (job) (up{region="eu"})`, g.end))
		require.Equal(t, http.StatusOK, ask(t, root.URL, queryPath, light).code)
		up.signal(syscall.SIGSTOP) // so that what is fetched of it waits
		defer up.signal(syscall.SIGCONT)
		slow := whole(g.rangeForm(`sum(rate(http_requests_total{region="eu"}[5m]))`))
		slow.Set("timeout", "5s")
		running := func() bool { return strings.Contains(fetch(t, pw.URL+"/api/v1/status/queries"), "http_requests_total") }
		ended := make(chan answer, 1)
		began := time.Now()
		go func() {
			a, _ := post(t.Context(), root.URL, rangePath, slow)
			ended <- a
		}()
		require.Eventually(t, running, 4*time.Second, time.Millisecond)
		require.Contains(t, fetch(t, pw.URL+"/api/v1/status/queries"), `"/thanos.Query/QueryRange"`)
		for _, url := range []string{root.URL, pw.URL} {
			a := ask(t, url, queryPath, light)
			require.NotEqual(t, http.StatusOK, a.code, "%s", a.body)
			require.Regexp(t, "too many queries at once: .*--query.max-concurrency", string(a.body))
		}
		a := <-ended
		require.NotEqual(t, http.StatusOK, a.code, "%.300s", a.body)
		require.Regexp(t, "timed out|[Dd]eadline|timeout", string(a.body))
		require.Less(t, time.Since(began), 8*time.Second)
		began = time.Now()
		require.Eventually(t, func() bool { return !running() }, 10*time.Second, time.Millisecond)
		t.Logf("the leaf was free %s after the error %.200s", time.Since(began), a.body)
		require.Equal(t, http.StatusOK, ask(t, root.URL, queryPath, light).code)

		metrics := fetch(t, pw.URL+"/metrics")
		require.Regexp(t, `promwarp_http_request_duration_seconds_count\{code="200",door="/thanos.Query/Query"\} [1-9]`, metrics)
		require.Regexp(t, `promwarp_http_request_duration_seconds_count\{code="200",door="/thanos.info.Info/Info"\} [1-9]`, metrics)
		require.Contains(t, pw.Log.String(), "door=/thanos.Query/QueryRange")
		require.Contains(t, fetch(t, pw.URL+"/explain?"+light.Encode()), `"status":"success"`)
	})
}

// TestLeafConnector: the community's connector, through which a Querier has queries evaluated by a server of
// Prometheus's HTTP API, gives promwarp's answers. CONNECTOR is its program, of a checkout of
// github.com/thanos-community/thanos-promql-connector: its module is called main.go, so module proxies lack it.
func TestLeafConnector(t *testing.T) {
	connector := os.Getenv("CONNECTOR")
	if connector == "" {
		t.Skip("CONNECTOR is not set: it is the program of a checkout of github.com/thanos-community/thanos-promql-connector")
	}
	bin, err := buildThanos()
	require.NoError(t, err)
	g := smallGrid(6)
	pw := promwarp(t, prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "").URL)

	// It takes credentials of Google's alone, which it exchanges for a token at the address that they name.
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token": "any", "token_type": "Bearer", "expires_in": 3600}`)
	}))
	t.Cleanup(tokens.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "test@example.com", "private_key_id": "1", "token_uri": tokens.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	require.NoError(t, err)
	credentials := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(credentials, account, 0o600))
	config := writeConfig(t, fmt.Sprintf("query_target_url: %s\nauth: {credentials_file: %s, scopes: [any]}\n", pw.URL, credentials))
	addr, grpc := mustFreeAddr(t), mustFreeAddr(t)
	runServer(t, "connector", addr, connector, "--query.config-file="+config, "--connector-address="+grpc, "--metrics-address="+addr)
	root := querier(t, bin, []string{grpc}, distributed...)

	asked := 0
	same := func(path string, form url.Values, ordered bool) {
		form.Set("partial_response", "false")
		want, got := parsed(t, ask(t, pw.URL, path, form), ordered), parsed(t, ask(t, root.URL, path, form), ordered)
		require.NoError(t, want.Err)
		want.Sort()
		got.Sort()
		want.Warnings, got.Warnings = nil, nil // it has warnings in a form of its own, and no infos
		require.NoError(t, differs(want, got, 1e-12), form.Get("query"))
		asked++
	}
	for _, q := range dashboard {
		same(rangePath, g.rangeForm(q), false)
	}
	for _, q := range []string{`sum(up)`, `count by (job) (up)`, `max by (job) (max_over_time(process_resident_memory_bytes[30m]))`} {
		same(queryPath, instantForm(q, g.end), false)
	}
	t.Logf("%d queries", asked)
	require.GreaterOrEqual(t, asked, 20)
}
