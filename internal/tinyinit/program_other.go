//go:build !amd64 && !arm64

package tinyinit

import (
	"fmt"
	"os"
	"runtime"
)

// Program fails: init exists for amd64 and arm64 only.
func Program() (*os.File, error) {
	return nil, fmt.Errorf("the init of PID namespaces is not available for %s", runtime.GOARCH)
}
