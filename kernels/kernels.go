// Package kernels is what runs on GPUs, in CUDA C++, a room a stage of the work:
//
//	abi/       what the host and the kernels both speak of
//	decode/    chunks to samples
//	window/    samples to one value a step: policies, and strategies over them
//	values/    what is done with such values, and how values are added
//	group/     values of series to those of groups
//	resample/  samples to states of runs, and those to groups, for resample requests
//	custom/    the same with a program of a custom aggregate, which is put into the PTX later
//	probe/     a kernel that shows whether a device computes rightly: `promwarp devices` launches it
//	ptx/       what build/ has made of all these
//	host/      the same kernels behind the CUDA driver's interface, without a GPU
//
// A kernel is in the source file of its name, which says what it computes. Package
// gpuexec/launch launches them by name.
package kernels
