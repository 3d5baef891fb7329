// Package testrename exchanges two names of a file system as fast as the kernel can, while a test uses one of them. It is
// for tests of races with links. Its goroutine ends with the call of the function that Exchange returns.
package testrename

import "golang.org/x/sys/unix"

// Exchange exchanges two names until end is called. It ignores errors: the test may remove the names.
func Exchange(a, b string) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return func() { close(stop); <-done }
}
