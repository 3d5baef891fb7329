// Package guest boots other kernels in an emulator and runs the tests of this project there: on
// pure cgroup v2, and with the Landlock versions of Debian's kernels. It installs nothing: it
// downloads Debian's packages with apt-get, unpacks them into a cache and runs them from there.
//
//	packages ──▶ kernel, qemu, busybox ─┐
//	go test -c ──▶ test binaries ───────┴─▶ initramfs ──▶ boot ──▶ serial console
//
// Process 1 of the guest is e2e/guest/init. It mounts the usual file systems, runs a list of
// programs one after the other, prints their output and exit codes, and powers off. An emulated
// processor is about thirty times slower than the machine, so that times measured in a guest have
// no meaning.
//
// The tests run if GUEST=1 is set, since they download 75 MB once, and skip where that is not
// possible. With GUEST=required, as in CI, they fail instead.
package guest
