package landlock_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// TestOlderKernels restricts a process on kernels that report each ABI version, and tries every
// access that a later version could deny. Everything that the version can deny is denied.
func TestOlderKernels(t *testing.T) {
	need(t, landlock.ABIFiles)
	name := "open-nomad-abi-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tests := []struct {
		abi     int
		allowed string // of move, truncate, ioctl, abstract, signal
	}{
		{1, "truncate ioctl abstract signal"}, // ABI 1 denies every move between directories
		{2, "move truncate ioctl abstract signal"},
		{3, "move ioctl abstract signal"},
		{4, "move ioctl abstract signal"},
		{5, "move abstract signal"},
		{6, "move"},
		{7, "move"},
	}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.abi), func(t *testing.T) {
			need(t, tt.abi)
			dir := t.TempDir()
			for _, d := range []string{"rc", "rc/sub", "r"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range []string{"rc/sub/f", "r/f", "f"} {
				if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			tries := []string{"read=" + dir + "/f", "write=" + dir + "/r/f", "mkdir=" + dir + "/r/d", "read=" + dir + "/r/f",
				"move=" + dir + "/rc/sub/f", "truncate=" + dir + "/r/f", "ioctl=/dev/urandom",
				"abstract=" + name, "signal=" + strconv.Itoa(os.Getpid())}
			want := []string{"read denied", "write denied", "mkdir denied", "read allowed"}
			for _, what := range []string{"move", "truncate", "ioctl", "abstract", "signal"} {
				verdict := " denied"
				if strings.Contains(tt.allowed, what) {
					verdict = " allowed"
				}
				want = append(want, what+verdict)
			}
			got, err := runOn(t, testkernel.Kernel{LandlockABI: tt.abi}, "",
				append([]string{"rc:" + dir + "/rc", "r:" + dir + "/r", "r:/dev/urandom"}, tries...)...)
			if err != nil {
				t.Fatalf("trial: %v: %s", err, got)
			}
			check(t, withoutXDev(got), want...)
		})
	}
}

// withoutXDev counts ABI 1's result of a move as a denial: it reports EXDEV.
func withoutXDev(lines []string) []string {
	var out []string
	for _, l := range lines {
		if strings.HasPrefix(l, "move ") && strings.Contains(l, "cross-device") {
			l = "move denied"
		}
		out = append(out, l)
	}
	return out
}

// TestPortsNeedTheirABI checks that restricting ports fails on a kernel without support.
func TestPortsNeedTheirABI(t *testing.T) {
	need(t, landlock.ABIFiles)
	real, err := landlock.ABI()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for abi := landlock.ABIFiles; abi <= min(real, landlock.ABIAudit); abi++ {
		got, err := runOn(t, testkernel.Kernel{LandlockABI: abi}, "1", "r:/tmp", "dial="+l.Addr().String())
		switch {
		case abi < landlock.ABITCP && (err == nil || !strings.Contains(fmt.Sprint(got), "required 4")):
			t.Errorf("ABI %d: %v, %q, want an error that names ABI 4", abi, err, got)
		case abi >= landlock.ABITCP && fmt.Sprint(got) != "[dial denied]":
			t.Errorf("ABI %d: %v, %q, want the dial denied", abi, err, got)
		}
	}
}

func TestNoLandlock(t *testing.T) {
	got, err := runOn(t, testkernel.Kernel{NoLandlock: true}, "", "r:/tmp", "read=/etc/passwd")
	if err == nil || !strings.Contains(fmt.Sprint(got), landlock.ErrUnavailable.Error()) {
		t.Errorf("without Landlock: %v, %q, want an error", err, got)
	}
	if strings.Contains(fmt.Sprint(got), "allowed") {
		t.Errorf("the process continued without restriction: %q", got)
	}
}

func TestTooOld(t *testing.T) {
	tests := []struct {
		have, want int
		names      string
	}{
		{2, 6, "landlock ABI 2 of this kernel is below the required 6, which restricts truncation, TCP ports, ioctl " +
			"on devices, abstract unix sockets, signals"},
		{6, 9, "landlock ABI 6 of this kernel is below the required 9, which restricts unix sockets in the file system"},
		{6, 7, "landlock ABI 6 of this kernel is below the required 7"},
	}
	for _, tt := range tests {
		if got := (&landlock.TooOld{Have: tt.have, Want: tt.want}).Error(); got != tt.names {
			t.Errorf("TooOld{%d, %d} = %q, want %q", tt.have, tt.want, got, tt.names)
		}
	}
}
