package landlock

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSecondLayer checks, for each ABI, the rights that this package removes in addition to the
// first layer. The numbers are those of linux/landlock.h.
func TestSecondLayer(t *testing.T) {
	tests := []struct {
		abi   int
		base  access // without ports
		size  uintptr
		names int
	}{
		{1, access{}, 8, 1},
		{2, access{}, 8, 2},
		{3, access{}, 8, 3},
		{4, access{}, 16, 4},
		{5, access{fs: 0x8000}, 16, 5},
		{6, access{fs: 0x8000, scoped: 3}, 24, 7},
		{7, access{fs: 0x8000, scoped: 3}, 24, 7},
		{8, access{fs: 0x8000, scoped: 3}, 24, 7},
		{9, access{fs: 0x18000, scoped: 3}, 24, 8},
		{10, access{fs: 0x18000, scoped: 3}, 24, 8},
	}
	for _, tt := range tests {
		if got := secondLayer(tt.abi, false); got != tt.base {
			t.Errorf("ABI %d: %+v, want %+v", tt.abi, got, tt.base)
		}
		withPorts := tt.base
		if tt.abi >= 4 {
			withPorts.net = 3
		}
		if got := secondLayer(tt.abi, true); got != withPorts {
			t.Errorf("ABI %d with ports: %+v, want %+v", tt.abi, got, withPorts)
		}
		if got := size(tt.abi); got != tt.size {
			t.Errorf("ABI %d: size %d, want %d", tt.abi, got, tt.size)
		}
		if got := between(0, tt.abi); len(got) != tt.names || slices.Contains(got, "") {
			t.Errorf("ABI %d restricts %q, want %d", tt.abi, got, tt.names)
		}
	}
}

// TestConnectable checks which granted paths keep their sockets usable.
func TestConnectable(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		modes, name string
		want        bool
	}{
		{"rw", ".", true}, {"rwxc", ".", true}, {"r", ".", false}, {"w", ".", false}, {"rxc", ".", false},
		{"w", "s", true}, {"rw", "s", true}, {"r", "s", false}, {"rw", "f", false},
	}
	for _, tt := range tests {
		name := filepath.Join(dir, tt.name)
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		files, err := merge([]Path{{Modes: tt.modes, FD: fd, Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		if got := files[0].connectable(); got != tt.want {
			t.Errorf("%s:%s connectable = %v, want %v", tt.modes, tt.name, got, tt.want)
		}
		unix.Close(fd)
	}
}
