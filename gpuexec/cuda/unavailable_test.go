package cuda_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

func TestUnavailable(t *testing.T) {
	h := cudatest.Control(t)
	lib := cudatest.Library(t)
	for name, c := range map[string]struct {
		library, settings string
		reason            cuda.Reason
		text              string
	}{
		"no driver":        {"libnothing.so.1", "", cuda.NoDriver, "install NVIDIA's driver"},
		"not a driver":     {"libc.so.6", "", cuda.NoDriver, "libc.so.6 is not a CUDA driver"},
		"old driver":       {lib, "version=10020", cuda.OldDriver, "it supports CUDA 10.2, and promwarp needs 11.0; update it to version 450"},
		"no device":        {lib, "devices=0", cuda.NoDevice, "see whether nvidia-smi lists one"},
		"not permitted":    {lib, "cuInit:1=800", cuda.Forbidden, "cuInit: CUDA_ERROR_NOT_PERMITTED (800)"},
		"has its own user": {lib, "cuDevicePrimaryCtxRetain:1=46", cuda.Forbidden, "another process has it to itself"},
	} {
		t.Run(name, func(t *testing.T) {
			h.Reset()
			h.Configure(c.settings)
			err := useAll(c.library)
			var u *cuda.Unavailable
			require.ErrorAs(t, err, &u)
			require.Equal(t, c.reason, u.Reason)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestForbiddenFile(t *testing.T) {
	dir := t.TempDir()
	open := func(string) error { return &fs.PathError{Op: "open", Path: "/dev/nvidia0", Err: fs.ErrPermission} }
	require.NoError(t, cuda.ForbiddenFile(dir+"/nvidia*", open), "no such file")
	require.NoError(t, cuda.ForbiddenFile(dir, func(string) error { return nil }))
	err := cuda.CannotStart(errors.New("cuInit fails"), cuda.ForbiddenFile(dir, open))
	require.EqualError(t, err, "the GPU may not be used: open /dev/nvidia0: permission denied (cuInit fails); run promwarp as a user that may open /dev/nvidia*, give a container the device (docker run --gpus all), and see with nvidia-smi -q -d COMPUTE whether another process has it to itself")
}

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n":                "535.129.03",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (archlinux-builder@)\n": "580.95.05",
		"": "",
	} {
		require.Equal(t, want, cuda.ReleaseIn([]byte(text)))
	}
}
