// Package guest boots other kernels in an emulator and runs this project's tests there:
// pure version 2 of control groups, and the versions of Landlock that Debian's kernels
// have. Nothing is installed: Debian's packages are downloaded with apt-get, unpacked
// into a cache and run from there.
//
//	packages ──▶ kernel, qemu, busybox ─┐
//	go test -c ──▶ test binaries ───────┴─▶ initramfs ──▶ boot ──▶ serial console
//
// Process 1 of the guest is e2e/guest/init: it mounts what a system has, runs a list of
// programs, one after the other, prints what they print and how they end, and powers
// off. An emulated processor is some thirty times slower than the machine it runs on, so
// times measured in a guest mean nothing.
//
// The tests run where GUEST=1 is set, for they download 75 MB once, and skip where that
// is not possible; with GUEST=required, as in CI, they fail.
package guest
