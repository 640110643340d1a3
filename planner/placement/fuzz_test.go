package placement

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzRead reads any bytes as a file of constants: an error, or constants that estimates can
// be made from.
func FuzzRead(f *testing.F) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	good, err := json.Marshal(file{fileVersion, "m", now, h200})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "2026-11-01T00:00:00Z"}`))
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "2026-11-01T00:00:00Z", "cores": {"sample_ns": 1e-300, "slow": 64}, "device": {"sample_ns": 1, "slow": 1}, "link_bytes_per_second": 1e-300}`))
	f.Add([]byte(`{"version": 2, "machine": "m", "measured": "9999-12-31T23:59:59Z"}`))
	f.Add([]byte("[{}]"))
	path := filepath.Join(f.TempDir(), "constants.json")
	leaves := []Size{{}, {Function: "rate", Series: 1000, Samples: 1e6, Decoded: 0.5, Missing: 1 << 30, Windows: 1e6, Results: 1 << 20}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := read(path, "m", now)
		if err != nil {
			return
		}
		m := newModel(c)
		for _, l := range leaves {
			for x, s := range m.c.plain(l) {
				if math.IsNaN(s) || s < 0 {
					t.Errorf("%+v: executor %d is expected to take %g s for %+v", c, x, s, l)
				}
			}
			if e := m.estimate(l); e[Cores] < 0 || e[Device] < 0 {
				t.Errorf("%+v: %+v is expected to take %v", c, l, e)
			}
			m.observe(Cores, l, time.Second)
			m.observe(Device, l, time.Nanosecond)
		}
	})
}
