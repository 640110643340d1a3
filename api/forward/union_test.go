package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUniteEnds: wherever the union of two long lists is when its context ends, it ends soon.
func TestUniteEnds(t *testing.T) {
	const n, within = 100_000, 100 * time.Millisecond
	list := func(format, from string) json.RawMessage {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, from, i*7919%n))
		}
		return json.RawMessage("[" + strings.Join(all, ",") + "]")
	}
	for path, format := range map[string]string{
		"/api/v1/series":           `{"__name__":"m","from":"%s","instance":"%06d"}`,
		"/api/v1/labels":           `"%s-%06d"`,
		"/api/v1/targets/metadata": `{"target":{"from":"%s"},"metric":"%d"}`,
	} {
		t.Run(path, func(t *testing.T) {
			data := []json.RawMessage{list(format, "a"), list(format, "b")}
			ended := 0
			for after := time.Millisecond; ; after *= 2 {
				took, err := within, error(nil)
				for range 3 { // a busy machine may hold up one attempt
					ctx, cancel := context.WithTimeout(t.Context(), after)
					_, err = unite(ctx, path, data)
					deadline, _ := ctx.Deadline()
					took = time.Since(deadline)
					cancel()
					if took < within {
						break
					}
				}
				if err == nil {
					break
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, took, within, "given up after %s", after)
				ended++
			}
			t.Logf("ended %d times", ended)
			require.Greater(t, ended, 4, "the lists are not long")
		})
	}
	all, err := unite(t.Context(), "/api/v1/series", []json.RawMessage{list(`{"__name__":"m","from":"%s","instance":"%06d"}`, "a"), list(`{"__name__":"m","from":"%s","instance":"%06d"}`, "b")})
	require.NoError(t, err)
	require.Len(t, all, 2*n)
	require.Equal(t, map[string]any{"__name__": "m", "from": "b", "instance": "000000"}, all.([]any)[n])
}
