// Command standin stands in for promwarp in tests: small, of a module besides Go's library, and soon compiled.
package main

import "github.com/google/go-containerregistry/pkg/compression"

func main() { println(compression.None) }
