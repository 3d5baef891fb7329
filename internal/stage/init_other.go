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
