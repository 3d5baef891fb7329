package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// attachLoop returns the block device of a file, and makes it if the file has none.
func attachLoop(file string) (device string, err error) {
	for range 16 { // another program may take a free device first
		if device, err := loopOf(file); device != "" || err != nil {
			return device, err
		}
		if device, err = newLoop(file); !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return "", fmt.Errorf("no free loop device: %w", err)
}

func newLoop(file string) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", err
	}
	path := fmt.Sprintf("/dev/loop%d", number)
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer device.Close()
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close()
	return path, unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(backing.Fd())})
}

// loopOf returns the block device of a file, or "".
func loopOf(file string) (string, error) {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range all {
		if backing, err := os.ReadFile(name); err == nil && strings.TrimSuffix(string(backing), "\n") == file {
			return "/dev/" + strings.Split(name, "/")[3], nil
		}
	}
	return "", err
}

// detachLoop removes the block device of a file, unless it is mounted somewhere.
func detachLoop(file string) error {
	path, err := loopOf(file)
	if path == "" || err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), " /"+filepath.Base(path)+" ") {
		return err
	}
	return onLoop(path, unix.LOOP_CLR_FD)
}

// growLoop gives the block device of a file the size of the file.
func growLoop(file string) error {
	path, err := loopOf(file)
	if path == "" || err != nil {
		return err
	}
	return onLoop(path, unix.LOOP_SET_CAPACITY)
}

func onLoop(path string, request uint) error {
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	return unix.IoctlSetInt(int(device.Fd()), request, 0)
}
