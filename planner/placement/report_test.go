package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReport: the devices are listed with their memory and what is on them, and the crossover comes
// from the constants: the cores win what is small, the GPU what is large, later where it must copy.
func TestReport(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	l := leafOf(t, t.Context(), 100, "m")
	on := computedBy(t, p, l)
	require.Equal(t, 1.0, p.ResidentShare(l.Selection))

	r := p.Report()
	require.Empty(t, r.Reason)
	require.Equal(t, &constants, r.Constants)
	require.Len(t, r.Devices, 2)
	for i, d := range r.Devices {
		require.Equal(t, i, d.Ordinal)
		require.Equal(t, "promwarp host device "+string(rune('0'+i)), d.Name)
		require.Empty(t, d.Reason)
		require.Positive(t, d.Link)
		require.Greater(t, d.Taken, d.Room)
		require.Equal(t, i == on, d.Resident > 0, "device %d", i)
	}
	first, last := r.Crossover[0], r.Crossover[len(r.Crossover)-1]
	require.Less(t, first.Cores, first.Resident)
	require.Greater(t, last.Cores, last.Copied)
	for _, c := range r.Crossover {
		require.Less(t, c.Resident, c.Copied)
	}
}

// TestReportWithoutGPU: a Placer that is not there has nothing.
func TestReportWithoutGPU(t *testing.T) {
	var p *Placer
	require.Equal(t, Report{Reason: "no GPU is to be used (--gpu=off)"}, func() Report { r := p.Report(); require.Empty(t, r.Devices); r.Devices = nil; return r }())
	require.Zero(t, p.ResidentShare(nil))
}
