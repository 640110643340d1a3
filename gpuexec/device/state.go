package device

import "time"

// State is what a device is and has at a moment. Sizes are in bytes.
type State struct {
	Identity
	Reason  string  `json:"reason,omitempty"` // why it is not used at present
	Leaves  int64   `json:"leaves"`           // under way or waiting
	Typical float64 `json:"typical_seconds"`  // what one takes
	// What follows is 0 where the device is not open.
	Taken    uint64  `json:"taken_bytes"`           // of its memory
	Room     uint64  `json:"resident_limit_bytes"`  // of that, for chunks to stay in
	Resident uint64  `json:"resident_bytes"`        // of that, in use
	Link     float64 `json:"link_bytes_per_second"` // measured, to the device
	// Memory is what the device's memory can do by its clock and width; 0 where the driver does
	// not say.
	Memory float64 `json:"memory_bytes_per_second"`
}

// State returns the state of the device.
func (d *Device) State() State {
	s := State{
		Identity: identity(d.info), Reason: d.Unusable(time.Now()),
		Leaves: d.leaves.Load(), Typical: time.Duration(d.typical.Load()).Seconds(), Memory: d.driver.MemoryRate(d.info.Ordinal),
	}
	d.use.RLock()
	defer d.use.RUnlock()
	if d.x != nil {
		s.Taken, s.Link = d.x.MemoryTaken(), d.x.Link()
		s.Resident, s.Room = d.x.Store.Used()
	}
	return s
}
