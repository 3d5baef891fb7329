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

// OnThread runs f on a thread that never ends before this process. Programs that f starts and that must
// end with their parent (Pdeathsig) then end with this process only.
func OnThread(f func()) {
	done := make(chan struct{})
	forks() <- func() {
		defer close(done)
		f()
	}
	<-done
}
