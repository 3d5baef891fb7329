package rawexec_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxExecFiles is more than the descriptors of one exec session.
const maxExecFiles = 40

// An exec session that runs out of descriptors fails with an error, whichever descriptor is
// missing, and leaves none open.
func TestExecWithoutDescriptors(t *testing.T) {
	for name, tty := range map[string]bool{"pipes": false, "terminal": true} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, nil)
			cfg := sleeper(t, d)
			o := &drivers.ExecOptions{Command: []string{"true"}, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Tty: tty,
				Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
			if _, err := d.ExecTask(t.Context(), cfg.ID, o); err != nil { // opens what stays open
				t.Fatal(err)
			}
			before := openFiles(t)
			failed, worked := sweep(t, d, cfg.ID, o)
			if failed == 0 || worked == 0 {
				t.Errorf("%d sessions failed and %d worked, want some of both", failed, worked)
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d descriptors are open, want at most %d", after, before)
			}
		})
	}
}

// sweep runs a session with every number of free descriptors.
func sweep(t *testing.T, d *rawexec.Driver, id string, o *drivers.ExecOptions) (failed, worked int) {
	t.Helper()
	for free := range maxExecFiles {
		err := withFree(t, free, func() error {
			_, err := d.ExecTask(t.Context(), id, o)
			return err
		})
		switch {
		case err == nil:
			worked++
		case strings.Contains(err.Error(), unix.EMFILE.Error()):
			failed++
		default:
			t.Errorf("with %d descriptors free: %v, want %q", free, err, unix.EMFILE.Error())
		}
	}
	return failed, worked
}

// withFree calls f with this number of free descriptors.
func withFree(t *testing.T, free int, f func() error) error {
	t.Helper()
	probe, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	lowest := probe.Fd()
	probe.Close()
	var old unix.Rlimit
	low := unix.Rlimit{Cur: uint64(lowest) + uint64(free)}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low.Max = old.Max
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil) //nolint:errcheck // restore the limit
	return f()
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
