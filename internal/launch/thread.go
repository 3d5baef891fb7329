package launch

import (
	"runtime"
	"sync"
)

// forks is the thread that forks programs that must end with this process. The kernel kills them
// when the thread that forked them ends, and other threads may end earlier.
var forks = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// onThread runs f on that thread.
func onThread(f func()) {
	done := make(chan struct{})
	forks() <- func() {
		defer close(done)
		f()
	}
	<-done
}
