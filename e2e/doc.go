// Package e2e tests the real promwarp program against real Prometheus servers,
// as processes that talk over loopback addresses.
//
// The first run builds Prometheus from its Go module, which takes some minutes,
// and keeps the program in the repository's folder .build, named by version.
// Environment variables change what is tested:
//
//	E2E_SERIES      how many series the data set has, 3400
//	E2E_END         the end of its 24 hours in seconds since the epoch, now
//	E2E_LIVE        how often to look at the moved dashboard, once a minute
//	E2E_PROMWARP    a promwarp program to test instead of one built from here
//	E2E_PROMETHEUS  the Prometheus to test with instead of one built from here
//	E2E_UPSTREAM    the other Prometheus to test as an upstream: a program's path;
//	                without it prometheus on PATH, else Debian's package
//
// With the build tag clients, as make clients has it, also clients that take long to
// build read through promwarp, and rulers ask it.
package e2e
