//go:build !amd64 && !arm64

package stage

import (
	"fmt"
	"os"
	"runtime"
)

// initProgram fails: only amd64 and arm64 have one.
func initProgram() (*os.File, error) {
	return nil, fmt.Errorf("there is no init of process namespaces for %s", runtime.GOARCH)
}

// ParkedEntry is the companion's entry that is a spare.
const ParkedEntry = "nomad-spare"

// Spare is none here: it would split off an init.
type Spare struct{ used bool }

// Park fails: there is no init.
func Park(string) (*Spare, error) {
	_, err := initProgram()
	return nil, err
}

// Parked fails: nothing parks it.
func Parked(string) ([]string, error) {
	_, err := initProgram()
	return nil, err
}

// Close does nothing.
func (s *Spare) Close() error { return nil }

// Wait returns at once.
func (s *Spare) Wait() error { return nil }

func (f *forking) wake(*Process) (bool, error) { return false, nil }
