package plan

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
