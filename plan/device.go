package plan

import (
	"fmt"
	"time"
)

// DeviceWork says what GPUs did of a node's evaluation.
type DeviceWork struct {
	Leaves  int   `json:"leaves"` // windows and what aggregates them
	Chunks  int   `json:"chunks"`
	Samples int64 `json:"samples"` // decoded
	Bytes   int64 `json:"bytes"`   // of encoded chunks
	Micros  int64 `json:"us"`      // from the chunks to the groups' values
}

// AddDevice adds what further leaves took.
func (w *Work) AddDevice(d *DeviceWork) {
	if d == nil {
		return
	}
	if w.Device == nil {
		w.Device = &DeviceWork{}
	}
	w.Device.Leaves += d.Leaves
	w.Device.Chunks += d.Chunks
	w.Device.Samples += d.Samples
	w.Device.Bytes += d.Bytes
	w.Device.Micros += d.Micros
}

// Choice says between what was chosen for a window and what aggregates it, and how
// long that took.
type Choice struct {
	CPU    int64         `json:"estimated_cpu_us"`
	GPU    int64         `json:"estimated_gpu_us"` // waiting included
	Took   int64         `json:"took_us"`
	Device *int          `json:"gpu,omitempty"` // the driver's number of the GPU that evaluated it
	Stages *DeviceStages `json:"stages,omitempty"`
}

// DeviceStages say what a GPU did, stage by stage. Copying runs beside the kernels,
// so the parts add up to more than the whole.
type DeviceStages struct {
	Batches  int   `json:"batches"`
	Copied   int64 `json:"copied_bytes"`   // chunks, and where they are
	Resident int64 `json:"resident_bytes"` // of chunks that were there already
	Waited   int64 `json:"waited_us"`      // for others to be done
	Prepare  int64 `json:"prepare_us"`     // on the cores
	Copy     int64 `json:"copy_us"`
	Decode   int64 `json:"decode_us"`
	Window   int64 `json:"window_us"`
	Reduce   int64 `json:"fold_us"`
	Result   int64 `json:"result_us"`
	// CopyRate is what copying reached in bytes a second, LinkShare its share of
	// what the link was measured to do, and Overlap the share of the shorter of
	// copying and computing that the longer hid.
	CopyRate  float64 `json:"copy_bytes_per_second"`
	LinkShare float64 `json:"link_share"`
	Overlap   float64 `json:"overlap"`
}

func (s *DeviceStages) String() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return fmt.Sprintf("%d batches, %d bytes copied and %d there already; waited %s, prepared %s, copied %s (%.1f GB/s, %.0f %% of the link), decoded %s, windowed %s, aggregated %s, fetched %s; overlap %.0f %%",
		s.Batches, s.Copied, s.Resident, us(s.Waited), us(s.Prepare), us(s.Copy), s.CopyRate/1e9, 100*s.LinkShare,
		us(s.Decode), us(s.Window), us(s.Reduce), us(s.Result), 100*s.Overlap)
}
