// Package guest boots other kernels in an emulator and runs the tests of this project there. They
// run on pure cgroup v2, and with the Landlock versions of Debian's kernels. Nothing is installed:
// apt-get downloads Debian's packages, which are unpacked into a cache and run from there.
//
//	packages ──▶ kernel, qemu, busybox ─┐
//	go test -c ──▶ test binaries ───────┴─▶ initramfs ──▶ boot ──▶ serial console
//
// Process 1 of the guest is e2e/guest/init. It mounts the usual file systems and runs a list of
// programs one after the other. It prints their output and exit codes, and powers off. An emulated
// processor is about thirty times slower than the machine, so times measured in a guest have no
// meaning.
//
// The tests run only if GUEST=1 is set, because they download 75 MB once. They are skipped if that
// is not possible. With GUEST=required, as in CI, they fail instead.
package guest
