//go:build clients

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

// upOfRegions is what the example says one can ask, and its answer without the time.
const upOfRegions = "/api/v1/query?query=sum%20by%20(region)%20(up)"

// requireRegions waits until a Querier has a series of each region.
func requireRegions(t *testing.T, url string) {
	t.Helper()
	said := ""
	require.Eventually(t, func() bool {
		resp, err := client.Get(url + upOfRegions)
		if err != nil {
			return false
		}
		resp.Body.Close()
		said = fetch(t, url+upOfRegions)
		for _, region := range regions {
			if resp.StatusCode != http.StatusOK || !strings.Contains(said, fmt.Sprintf(`{"region":%q}`, region)) {
				return false
			}
		}
		return true
	}, time.Minute, 200*time.Millisecond, "a series of each region")
	require.NotContains(t, said, "warnings")
}

// TestLeafExample: examples/thanos/run.sh starts all, and ends all.
func TestLeafExample(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	for _, port := range []int{19091, 19092, 19093, 19201, 19202, 19203, 19301, 19302, 19303, 19400, 19401} {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Skipf("the example's addresses are in use: %v", err)
		}
		l.Close()
	}
	cmd := exec.Command("../examples/thanos/run.sh")
	cmd.Env = append(os.Environ(), "PROMETHEUS="+prometheusBin, "THANOS="+bin, "PROMWARP="+promwarpBin)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("the example goes on")
		}
		for _, url := range []string{"http://127.0.0.1:19400", "http://127.0.0.1:19201"} {
			_, err := client.Get(url)
			require.Error(t, err, "%s is there still\n%s", url, said.String())
		}
	}()
	requireRegions(t, "http://127.0.0.1:19400")
}

// TestLeafCompose: the commands in examples/thanos/compose.yaml, on this machine's addresses, are such as the
// programs take, and a Querier that they start has all regions.
func TestLeafCompose(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	text, err := os.ReadFile("../examples/thanos/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Services, 7)
	require.Equal(t, "quay.io/thanos/thanos:"+thanosVersion, file.Services["querier"].Image)
	targets, err := os.ReadFile("../examples/thanos/prometheus.yml")
	require.NoError(t, err)
	here := map[string]string{} // addresses, by those in the file
	for _, region := range regions {
		here["prometheus-"+region+":9090"], here["promwarp-"+region+":10901"] = mustFreeAddr(t), mustFreeAddr(t)
	}
	start := func(name, address, bin string, before, more []string, own ...string) *process {
		args := append(before, file.Services[name].Command...)
		for i, arg := range args {
			flag, value, _ := strings.Cut(arg, "=")
			for from, to := range here {
				value = strings.Replace(value, from, to, 1)
			}
			for n := 0; n+1 < len(own); n += 2 {
				if value == own[n] {
					value = own[n+1]
				}
			}
			if value != "" {
				args[i] = flag + "=" + value
			}
		}
		return runServer(t, name, address, bin, append(args, more...)...)
	}
	for _, region := range regions {
		up, web := here["prometheus-"+region+":9090"], mustFreeAddr(t)
		require.Equal(t, region, file.Services["prometheus-"+region].Environment["REGION"])
		config := writeConfig(t, strings.ReplaceAll(string(targets), "localhost:9090", up))
		start("prometheus-"+region, up, "env", []string{"REGION=" + region, prometheusBin}, []string{"--web.listen-address=" + up},
			"/etc/prometheus/prometheus.yml", config, "/prometheus", t.TempDir())
		start("promwarp-"+region, web, promwarpBin, nil, nil, ":9201", web, ":10901", here["promwarp-"+region+":10901"])
	}
	web := mustFreeAddr(t)
	root := start("querier", web, bin, nil, []string{"--grpc-address=" + mustFreeAddr(t)}, ":19400", web)
	requireRegions(t, root.URL)
}
