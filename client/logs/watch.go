package logs

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// heartbeat is the interval of heartbeats in a followed stream.
const heartbeat = time.Second

// watcher notifies a stream of changes in a directory.
type watcher struct {
	notify  *os.File
	changed wake.Signal
	ended   chan struct{}
	beat    *time.Ticker
}

// watch returns a watcher of a directory.
func watch(dir *os.File) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir.Name(), err)
	}
	const events = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM
	if _, err := unix.InotifyAddWatch(fd, procPath(dir), events); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch %s: %w", dir.Name(), err)
	}
	w := &watcher{
		notify:  os.NewFile(uintptr(fd), "inotify"),
		changed: wake.New(),
		ended:   make(chan struct{}),
		beat:    time.NewTicker(heartbeat),
	}
	go w.run()
	return w, nil
}

// run drains the kernel's queue. It ignores the content of the events.
func (w *watcher) run() {
	defer close(w.ended)
	buf := make([]byte, 16<<10)
	for {
		if _, err := w.notify.Read(buf); err != nil {
			return // closed
		}
		w.changed.Send()
	}
}

func (w *watcher) close() {
	w.beat.Stop()
	w.notify.Close()
	<-w.ended
}

// wait returns after a change, or after a second with beat set.
func (w *watcher) wait(ctx context.Context) (beat bool, err error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.changed:
		return false, nil
	case <-w.beat.C:
		return true, nil
	}
}
