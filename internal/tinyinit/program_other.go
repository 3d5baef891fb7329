//go:build !amd64 && !arm64

package tinyinit

import (
	"fmt"
	"runtime"
)

// Program fails: init exists for amd64 and arm64 only.
func Program() ([]byte, error) {
	return nil, fmt.Errorf("the init of PID namespaces is not available for %s", runtime.GOARCH)
}
