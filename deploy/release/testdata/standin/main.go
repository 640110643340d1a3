// Command standin stands in for promwarp in tests: small, and of a module besides Go's library.
package main

import (
	"fmt"

	"github.com/prometheus/common/version"
)

func main() { fmt.Println(version.Version) }
