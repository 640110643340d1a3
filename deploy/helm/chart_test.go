// Package helm has no code; its tests lint and render the chart for the values in testdata. The
// chart is that of the sources, or of the archive that the variable CHART of the environment names.
package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manifests are what the chart renders to.
type manifests struct {
	set      apps.StatefulSet
	services []core.Service
	config   core.ConfigMap
	monitors []monitoring.PodMonitor
	notes    string
}

// releases are the oldest version of Kubernetes that the chart is for, one of three years after,
// and the one whose types the chart is held against.
var releases = []string{"v1.25.0", "v1.31.0", "v1.37.0"}

// TestMain unpacks the chart's archive, if there is one.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		archive := os.Getenv("CHART")
		if archive == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "promwarp-chart-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
			panic(string(out))
		}
		source = filepath.Join(dir, "promwarp")
		return m.Run()
	}())
}

// source is the chart's folder.
var source = "promwarp"

func readValues(t *testing.T, name string) (values map[string]any) {
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &values))
	return values
}

// kubernetes is a cluster of that release.
func kubernetes(t *testing.T, release string) *common.Capabilities {
	version, err := common.ParseKubeVersion(release)
	require.NoError(t, err)
	cluster := common.DefaultCapabilities.Copy()
	cluster.KubeVersion = *version
	return cluster
}

// render renders the chart for the newest release of Kubernetes.
func render(t *testing.T, values map[string]any) manifests {
	return renderFor(t, releases[len(releases)-1], values)
}

// renderFor renders the chart for a release of Kubernetes, and decodes each manifest: a field that
// Kubernetes does not know is an error.
func renderFor(t *testing.T, release string, values map[string]any) (m manifests) {
	c, err := loader.Load(source)
	require.NoError(t, err)
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "here", Namespace: "monitoring", IsInstall: true}, kubernetes(t, release))
	require.NoError(t, err)
	files, err := engine.Render(c, all)
	require.NoError(t, err)
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			m.notes = text
			continue
		}
		for _, doc := range strings.Split("\n"+text, "\n---\n") {
			var kind struct{ Kind string }
			require.NoError(t, yaml.Unmarshal([]byte(doc), &kind), "%s", doc)
			var into any
			switch kind.Kind {
			case "StatefulSet":
				into = &m.set
			case "ConfigMap":
				into = &m.config
			case "Service":
				m.services = append(m.services, core.Service{})
				into = &m.services[len(m.services)-1]
			case "PodMonitor":
				m.monitors = append(m.monitors, monitoring.PodMonitor{})
				into = &m.monitors[len(m.monitors)-1]
			case "":
				require.Empty(t, strings.TrimSpace(doc), name)
				continue
			}
			require.NotNil(t, into, kind.Kind)
			require.NoError(t, yaml.UnmarshalStrict([]byte(doc), into), "%s", doc)
		}
	}
	return m
}

// TestChart: for all values Helm finds nothing to say, Kubernetes knows all fields, and what
// belongs together has the same names.
func TestChart(t *testing.T) {
	for _, name := range []string{"default", "gpu", "bare", "full"} {
		t.Run(name, func(t *testing.T) {
			m := render(t, readValues(t, name))
			for _, release := range releases { // with values of their own each, which Helm changes
				version := kubernetes(t, release).KubeVersion
				for _, m := range lint.RunAll(source, readValues(t, name), "monitoring", lint.WithKubeVersion(&version)).Messages {
					require.Less(t, m.Severity, support.WarningSev, "%s: %s: %s", release, m.Path, m.Err)
				}
				require.Equal(t, m, renderFor(t, release, readValues(t, name)), "nothing depends on the release")
			}
			pod := m.set.Spec.Template
			require.Len(t, m.services, 2)
			for _, s := range m.services {
				require.Subset(t, pod.Labels, s.Spec.Selector)
				require.LessOrEqual(t, len(s.Name), 63)
			}
			require.Contains(t, []string{m.services[0].Name, m.services[1].Name}, m.set.Spec.ServiceName)
			require.Subset(t, pod.Labels, m.set.Spec.Selector.MatchLabels)
			require.Equal(t, m.config.Name, pod.Spec.Volumes[0].ConfigMap.Name)
			requireRestricted(t, pod.Spec)

			volumes := map[string]bool{}
			for _, v := range pod.Spec.Volumes {
				volumes[v.Name] = true
			}
			for _, v := range m.set.Spec.VolumeClaimTemplates {
				volumes[v.Name] = true
			}
			for _, v := range pod.Spec.Containers[0].VolumeMounts {
				require.True(t, volumes[v.Name], v.Name)
			}
			var config map[string]any
			require.NoError(t, yaml.UnmarshalStrict([]byte(m.config.Data["promwarp.yml"]), &config))
			require.Contains(t, config, "remote_read")
			require.Contains(t, m.notes, m.services[0].Name)
		})
	}
}

// requireRestricted requires what Kubernetes's restricted profile does, and a root file system
// that is not written to.
func requireRestricted(t *testing.T, pod core.PodSpec) {
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.NotZero(t, *pod.SecurityContext.RunAsUser)
	require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *pod.AutomountServiceAccountToken)
	for _, c := range pod.Containers {
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.Empty(t, c.SecurityContext.Capabilities.Add)
		require.Equal(t, "/-/healthy", c.LivenessProbe.HTTPGet.Path)
		require.Equal(t, "/-/ready", c.ReadinessProbe.HTTPGet.Path)
	}
}

// TestOptions: what values ask for is there.
func TestOptions(t *testing.T) {
	const gpu = core.ResourceName("nvidia.com/gpu")
	byDefault := render(t, nil)
	require.NotContains(t, byDefault.set.Spec.Template.Spec.Containers[0].Resources.Limits, gpu)
	require.Empty(t, byDefault.monitors)
	require.Len(t, byDefault.set.Spec.VolumeClaimTemplates, 1)

	withGPU := render(t, readValues(t, "gpu")).set.Spec.Template.Spec
	limits := withGPU.Containers[0].Resources.Limits
	count := limits[gpu]
	require.Equal(t, "2", count.String())
	require.Equal(t, "64Gi", limits.Memory().String())
	require.Equal(t, "nvidia", *withGPU.RuntimeClassName)

	bare := render(t, readValues(t, "bare"))
	require.Empty(t, bare.set.Spec.VolumeClaimTemplates)
	require.Zero(t, *bare.set.Spec.Replicas)
	require.Empty(t, bare.set.Spec.Template.Spec.Containers[0].Resources.Limits)

	full := render(t, readValues(t, "full"))
	require.Len(t, full.monitors, 1)
	require.Equal(t, "https", string(*full.monitors[0].Spec.PodMetricsEndpoints[0].Scheme))
	require.Contains(t, full.set.Spec.Template.Spec.Containers[0].Args, `--web.cors.origin=https://a "b": c`)
	require.Equal(t, core.URISchemeHTTPS, full.set.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme)
	require.NotEqual(t, byDefault.set.Spec.Template.Annotations["checksum/config"],
		full.set.Spec.Template.Annotations["checksum/config"], "pods restart when the configuration changes")
}

// TestRefused: the schema refuses values that would start nothing.
func TestRefused(t *testing.T) {
	c, err := loader.Load(source)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"a key that nobody reads":        `{persistance: {enabled: false}}`,
		"a port nobody reaches":          `{config: {web: {listen_address: ["127.0.0.1:9201"]}}}`,
		"no port":                        `{config: {web: null}}`,
		"nothing to read from":           `{config: {remote_read: null}}`,
		"half a GPU":                     `{gpu: {count: 0.5}}`,
		"one volume for several writers": `{persistence: {accessModes: [ReadWriteMany]}}`,
		"a size that is none":            `{persistence: {size: much}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &values))
			_, err := util.ToRenderValues(c, values, common.ReleaseOptions{}, common.DefaultCapabilities)
			require.Error(t, err)
		})
	}
}

// TestTooOld: Helm refuses a cluster that is older than the chart's kubeVersion.
func TestTooOld(t *testing.T) {
	c, err := loader.Load(source)
	require.NoError(t, err)
	require.True(t, chartutil.IsCompatibleRange(c.Metadata.KubeVersion, releases[0]))
	require.False(t, chartutil.IsCompatibleRange(c.Metadata.KubeVersion, "v1.24.0"))
}
