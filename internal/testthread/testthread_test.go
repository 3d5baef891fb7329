package testthread_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testthread"
)

// With one processor, goroutines run on the main thread often.
func TestThreadEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 200 {
		var id int
		testthread.Run(func() { id = unix.Gettid() })
		if id == os.Getpid() {
			t.Fatal("the function ran on the main thread")
		}
		testpace.Within(t, 10*time.Second, "the thread ends", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id))
			return os.IsNotExist(err)
		})
	}
}
