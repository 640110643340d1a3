package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplicas(t *testing.T) {
	const url = "http://a/api/v1/read"
	for text, wrong := range map[string]string{
		"{replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read]}}":                                    "",
		"{replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read], label: replica, merge: penalty}}":    "",
		"{replicas: {urls: [http://a/api/v1/read]}}":                                                          "replicas.urls has fewer than two URLs",
		"{url: http://c/api/v1/read, replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read]}}":         "both url and replicas",
		"{replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read], merge: any}}":                        `"any" is neither failover`,
		"{replicas: {urls: [http://a/api/v1/read, http://a/api/v1/read]}}":                                    "two entries are called " + url,
		"{api_url: http://c, replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read]}}":                 "replicas have no api_url",
		"{replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read], labels: replica}}":                   "unknown key",
		"{replicas: {urls: [http://a/api/v1/read, '']}}":                                                      "replicas.urls has an empty URL",
		"{replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read], label: replica, merge: [failover]}}": "a list does not fit here",
	} {
		file := filepath.Join(t.TempDir(), "promwarp.yml")
		require.NoError(t, os.WriteFile(file, []byte("remote_read:\n- "+text+"\n"), 0o666))
		flags := Flags{File: file}
		s, err := flags.Load()
		if err == nil {
			err = s.Validate()
		}
		if wrong != "" {
			require.ErrorContains(t, err, wrong, text)
			continue
		}
		require.NoError(t, err)
		sources, err := s.Sources()
		require.NoError(t, err)
		require.Len(t, sources, 2)
		require.Equal(t, []string{url, "http://b/api/v1/read"}, []string{sources[0].Name(), sources[1].Name()})
		require.Equal(t, "http://b", sources[1].Base.String())
	}
}
