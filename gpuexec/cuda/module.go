package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// Module is code loaded on a device.
type Module uintptr

// Function is a kernel of a module.
type Function uintptr

// The driver's numbers of the compiler's options.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// Load compiles PTX for the device, unless the driver has kept the result of an
// earlier time, and loads it. If the PTX does not compile the error holds what
// the compiler says.
func (c *Context) Load(ptx []byte) (m Module, err error) {
	source := append(bytes.Clone(ptx), 0)
	log := make([]byte, 8<<10)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	options := [...]int32{jitErrorLog, jitErrorLogSize}
	values := [...]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log) - 1)}
	err = c.call(callModuleLoad, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&source[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&values)))
	if err == nil {
		return m, nil
	}
	if said := bytes.TrimSpace([]byte(text(&log[0]))); len(said) > 0 {
		err = fmt.Errorf("%w; its compiler says: %s", err, said)
	}
	return 0, err
}

// Unload gives a module back.
func (c *Context) Unload(m Module) error { return c.call(callModuleUnload, uintptr(m)) }

// Function finds a kernel by its name.
func (c *Context) Function(m Module, name string) (f Function, err error) {
	s := append([]byte(name), 0)
	err = c.call(callModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&s[0])))
	if err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	return f, nil
}
