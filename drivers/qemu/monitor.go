package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Keys of what a handle keeps of a task with graceful_shutdown.
const (
	monitorKey = "monitor" // path of the socket
	dirKey     = "dir"     // directory of the allocation, which belongs to root
)

// powerdown is the command that presses the power button of the guest.
const powerdown = "system_powerdown\n"

// exitPatience is the time for an emulator to end after its signal.
const exitPatience = 5 * time.Second

// StopTask implements drivers.Driver. With graceful_shutdown the guest gets the timeout to power off.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	if signal != "" {
		if _, err := drivers.ParseSignal(signal); err != nil {
			return err
		}
	}
	kept := d.Kept(id)
	if kept[monitorKey] == "" || timeout <= 0 {
		return d.Tasks.StopTask(ctx, id, timeout, signal)
	}
	conn, err := dial(kept[dirKey], kept[monitorKey])
	if err != nil { // the emulator has ended, or removed its socket
		return d.Tasks.StopTask(ctx, id, timeout, signal)
	}
	defer conn.Close()           // emulators drop a command if the connection ends with it
	go io.Copy(io.Discard, conn) //nolint:errcheck // its prompt; the end of the connection ends it
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn.SetWriteDeadline(time.Now().Add(exitPatience)) //nolint:errcheck // sockets support deadlines
	if _, err := io.WriteString(conn, powerdown); err == nil {
		if _, err := d.WaitTask(waiting, id); err == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.Tasks.StopTask(ctx, id, exitPatience, signal)
}

// dial connects to a socket below the directory of an allocation. The emulator could have put a link to another
// socket there: none is followed, and a file of another user is refused.
func dial(dir, path string) (net.Conn, error) {
	root, err := safefs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, err
	}
	parent, err := root.Sub(filepath.Dir(rel))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	fd, err := safefs.OpenBeneath(parent.FD(), filepath.Base(rel), unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("open the monitor socket: %w", err)
	}
	defer unix.Close(fd)
	var of, st unix.Stat_t
	if err := errors.Join(unix.Fstat(parent.FD(), &of), unix.Fstat(fd, &st)); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Uid != of.Uid {
		return nil, errors.New("the monitor socket is not a socket of the emulator")
	}
	return net.DialTimeout("unix", "/proc/self/fd/"+strconv.Itoa(fd), exitPatience)
}
