// Package peers builds, starts and feeds the servers that are compared:
// Prometheus, promwarp and VictoriaMetrics. All of them listen on loopback
// addresses only, on ports that were free, and end with the benchmark.
package peers
