// Package sidecar holds the programs that the client runs for a task, confined as the task is: one
// downloads artifacts (internal/fetch), one renders templates (internal/render). They are separate
// programs because their libraries are large. Linked into nomad, these would cost memory in each
// agent and time at each start.
//
// `make build` builds the programs first and embeds them, compressed (build tag "companion"). Each is
// unpacked into a sealed memory file on first use, so that no task can change it. A build without the
// tag has the programs as entries of nomad itself (internal/companion), which is larger and slower but
// behaves the same.
//
// The package starts no goroutine.
package sidecar

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/internal/memfd"
)

// Names of the programs: argv[0] selects the entry.
const (
	Fetch  = "nomad-fetch"
	Render = "nomad-render"
)

// Program returns the executable of a program. It stays open for the life of this process; the
// caller must not close it.
func Program(name string) (*os.File, error) {
	open, ok := programs[name]
	if !ok {
		return nil, fmt.Errorf("sidecar program %q does not exist", name)
	}
	return open()
}

var programs = map[string]func() (*os.File, error){
	Fetch:  sync.OnceValues(func() (*os.File, error) { return unpack(Fetch, fetchBinary) }),
	Render: sync.OnceValues(func() (*os.File, error) { return unpack(Render, renderBinary) }),
}

// unpack writes the compressed program to a memory file. Without one, the program is this
// executable.
func unpack(name string, packed []byte) (*os.File, error) {
	if len(packed) == 0 {
		return os.Open("/proc/self/exe")
	}
	program, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack program %s: %w", name, err)
	}
	fd, err := memfd.ReadProgram(name, program)
	if err != nil {
		return nil, fmt.Errorf("unpack program %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
